// The fuzzer's own parts: sequences, their text form, and shrinking.
#include <algorithm>

#include <gtest/gtest.h>

#include "generate.h"
#include "sequence.h"
#include "shrink.h"

namespace trireme::fuzz {
namespace {

bool is_long_reduce(const Step& step) {
  const auto* call = std::get_if<Collective>(&step.action);
  return call != nullptr && call->operation == Operation::Reduce && call->count >= 1000;
}

bool has_long_reduce(const Sequence& sequence) {
  return std::ranges::any_of(sequence.steps, is_long_reduce);
}

/// The first seed that generates such a sequence.
Sequence with_long_reduce() {
  for (std::uint64_t seed = 1;; ++seed) {
    Sequence sequence = generate(seed, {.transport = Transport::Mixed, .ranks = 5});
    if (has_long_reduce(sequence) && sequence.steps.size() > 20) {
      return sequence;
    }
  }
}

TEST(CommFuzzSequence, IsLegalAndRoundTrips) {
  for (const Transport transport : all_transports()) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const Sequence sequence = generate(seed, {.transport = transport});
      EXPECT_EQ(find_illegal(sequence), "") << to_text(sequence);
      EXPECT_EQ(parse_sequence(to_text(sequence)), sequence) << to_text(sequence);
    }
  }
}

TEST(CommFuzzSequence, DependsOnSeedOnly) {
  EXPECT_EQ(generate(7, {}), generate(7, {}));
  EXPECT_NE(generate(7, {}), generate(8, {}));
}

TEST(CommFuzzSequence, RejectsSequencesThatCannotRun) {
  const std::string world =
      "world transport=tcp ranks=2 hosts=0.0 checksums=network connections=2 costs=none skew=none "
      "end=alone\n";
  EXPECT_NO_THROW((void)parse_sequence(
      world + "1 message group=0 from=0 to=1 tag=0 dtype=u8 count=1 send=p0 receive=p0+1\n"));
  for (const std::string line :
       {"1 message group=0 from=0 to=0 tag=0 dtype=u8 count=1 send=p0 receive=p0",
        "1 message group=1 from=0 to=1 tag=0 dtype=u8 count=1 send=p0 receive=p0",
        "1 message group=0 from=0 to=1 tag=0 dtype=u8 count=1 send=s0 receive=p0",
        "1 message group=0 from=0 to=1 tag=0 dtype=u8 count=1 send=p0", "1 release group=0",
        "1 subset parent=0 parts=1:0.2", "1 nothing group=0"}) {
    EXPECT_THROW((void)parse_sequence(world + line + "\n"), Error) << line;
  }
}

TEST(CommFuzzShrink, KeepsOnlyFailingCalls) {
  const Sequence smallest = shrink(with_long_reduce(), has_long_reduce, [] { return true; });
  EXPECT_EQ(smallest.ranks, 1);
  ASSERT_EQ(smallest.steps.size(), 1U) << to_text(smallest);
  const auto& call = std::get<Collective>(smallest.steps[0].action);
  EXPECT_EQ(call.count, 1000);
  EXPECT_EQ(call.dtype, DType::F32);
  EXPECT_EQ(call.sides, std::vector<Side>(1));
}

TEST(CommFuzzShrink, TriesOnlyLegalSequences) {
  const Fails fails = [](const Sequence& candidate) {
    EXPECT_EQ(find_illegal(candidate), "") << to_text(candidate);
    return candidate.ranks >= 3 && has_long_reduce(candidate);
  };
  EXPECT_EQ(shrink(with_long_reduce(), fails, [] { return true; }).ranks, 3);
}

TEST(CommFuzzShrink, StopsOnRequest) {
  const Sequence failing = with_long_reduce();
  EXPECT_EQ(shrink(failing, has_long_reduce, [] { return false; }), failing);
}

}  // namespace
}  // namespace trireme::fuzz
