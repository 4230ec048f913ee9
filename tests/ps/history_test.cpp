// The checker of histories, on histories made by hand. Two workers push; time is in arbitrary units.
#include "ps/history.h"

#include <gtest/gtest.h>

namespace trireme::ps {
namespace {

/// Worker 0 pushes in [10, 20] and [30, 40], worker 1 in [15, 35].
KeyHistory three_pushes() {
  KeyHistory history(2);
  const std::size_t first = history.begin_push(0, 10);
  const std::size_t other = history.begin_push(1, 15);
  history.end_push(0, first, 20);
  const std::size_t second = history.begin_push(0, 30);
  history.end_push(1, other, 35);
  history.end_push(0, second, 40);
  return history;
}

TEST(KeyHistory, AcceptsLinearizableReads) {
  KeyHistory history = three_pushes();
  history.add_read(0, 5, {0, 0});
  history.add_read(12, 18, {0, 0});  // during both: neither yet
  history.add_read(12, 19, {1, 0});  // or one of them
  history.add_read(25, 32, {1, 1});  // not acknowledged, but may be there
  history.add_read(26, 33, {1, 0});  // overlaps the read before, so it may have come first
  history.add_read(34, 38, {2, 1});
  history.add_read(50, 60, {2, 1});
  EXPECT_EQ(history.problem(), "");
  EXPECT_EQ(history.acknowledged(0), 2);
}

TEST(KeyHistory, AcceptsUnansweredPushEitherWay) {
  for (const int seen : {0, 1}) {
    KeyHistory history(1);
    (void)history.begin_push(0, 10);
    history.add_read(100, 110, {seen});
    EXPECT_EQ(history.problem(), "") << seen;
  }
}

struct BadRead {
  const char* name;
  SimTime begin;
  SimTime end;
  std::vector<int> seen;
  const char* problem;
};

class BadHistory : public testing::TestWithParam<BadRead> {};

TEST_P(BadHistory, IsRejected) {
  KeyHistory history = three_pushes();
  history.add_read(26, 32, {1, 1});
  history.add_read(GetParam().begin, GetParam().end, GetParam().seen);
  EXPECT_NE(history.problem().find(GetParam().problem), std::string::npos) << history.problem();
}

INSTANTIATE_TEST_SUITE_P(
    Reads, BadHistory,
    testing::Values(
        BadRead{"Lost", 50, 60, {1, 1}, "lacks push 1 of worker 0"},
        BadRead{"Doubled", 50, 60, {3, 1}, "doubled"},
        BadRead{"Early", 12, 18, {2, 0}, "includes push 1 of worker 0"},
        // Worker 0's second push began after the first was acknowledged; whoever sees it sees both, and worker 1's by 36.
        BadRead{"Backwards", 36, 39, {1, 0}, "lacks push 0 of worker 1"},
        BadRead{"LessThanAnEarlierRead", 33, 34, {1, 0}, "includes less"},
        BadRead{"OtherOrder", 27, 33, {2, 0}, "disagree on the order"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::ps
