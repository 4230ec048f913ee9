// The workload accepts correct results, and detects wrong ones.
#include "comm/fault_fuzz/workload.h"

#include <atomic>

#include <gtest/gtest.h>

namespace trireme::fault_fuzz {
namespace {

constexpr Rank kRanks = 3;

void call_directly(const std::function<void()>& call) {
  call();
}

/// How many ranks get a wrong result if the step of rank r is `step_of(r)`.
int wrong_results(const Op& op, const std::function<std::int64_t(Rank)>& step_of) {
  std::atomic<int> wrong = 0;
  run_threads(kRanks, [&](World& world) {
    try {
      run_op(op, world.all(), step_of(world.rank()), call_directly);
    } catch (const WrongResult&) {
      ++wrong;
    }
    world.all().barrier();
  });
  return wrong;
}

class FaultWorkload : public testing::TestWithParam<int> {};

TEST_P(FaultWorkload, AcceptsCorrectResults) {
  for (const std::int64_t elements : {1, 1000}) {
    EXPECT_EQ(wrong_results({static_cast<Op::Kind>(GetParam()), elements}, [](Rank) { return 7; }),
              0);
  }
}

/// Ranks in different steps contribute other values than their peers expect.
TEST_P(FaultWorkload, DetectsWrongResults) {
  const Op op{static_cast<Op::Kind>(GetParam()), 1000};
  const int wrong = wrong_results(op, [](Rank rank) { return std::int64_t{rank} * kRanks; });
  EXPECT_EQ(wrong > 0, op.kind != Op::Kind::Barrier);
}

INSTANTIATE_TEST_SUITE_P(Ops, FaultWorkload, testing::Range(0, kOps), [](const auto& op) {
  std::string text(to_text(static_cast<Op::Kind>(op.param)));
  std::erase(text, '-');
  return text;
});

}  // namespace
}  // namespace trireme::fault_fuzz
