// The judge on hand-written records: it accepts the library's guarantees and finds each violation.
#include "comm/fault_fuzz/judge.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "comm/fault_fuzz/truth.h"
#include "trireme/comm.h"

namespace trireme::fault_fuzz {
namespace {

constexpr RankSet kAll = 0b1111;

/// Four ranks, a deadline of one second, faults and events to be added. Runs from 0 s to 10 s.
class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    scenario_.transport = Transport::Tcp;
    scenario_.deadline = 1;
    scenario_.hosts = {0, 0, 1, 1};
    scenario_.ops = {{Op::Kind::Allreduce, 10}};
    record_.ranks.resize(4);
    for (int r = 0; r < 4; ++r) {
      rank(r).ended_at = 10;
      add(r, {.kind = Event::Kind::Joined, .time = 0});
      add(r, {.kind = Event::Kind::BarrierBegun, .time = 0, .members = kAll});
      add(r, {.kind = Event::Kind::BarrierDone, .time = 0.1, .members = kAll});
    }
  }

  RankRecord& rank(int r) { return record_.ranks[r]; }
  void add(int r, const Event& event) { rank(r).events.push_back(event); }

  /// From `begin` to `end`; to the end of the run if that is 0.
  void strike(Fault::Kind kind, int target, double begin, double end = 0) {
    const Fault fault{.kind = kind, .target = target, .at = begin, .length = end - begin};
    Strike strike{.fault = fault, .began_after = begin, .began_before = begin};
    if (end > 0) {
      strike.ended_after = strike.ended_before = end;
    }
    record_.strikes.push_back(strike);
    if (kind == Fault::Kind::Kill) {
      rank(target).end = RankRecord::End::Killed;
      rank(target).ended_at = begin;
    }
  }

  void fail_call(int r, double begin, double end, RankSet culprits) {
    add(r, {.kind = Event::Kind::CallFailed,
            .begin = begin,
            .time = end,
            .members = kAll,
            .fault = static_cast<int>(CommFault::Stopped),
            .culprits = culprits});
  }
  /// Shrinks the world to the members and completes a barrier there.
  void shrink(int r, double begin, double end, RankSet members) {
    add(r, {.kind = Event::Kind::Shrinking, .time = begin, .members = kAll});
    add(r, {.kind = Event::Kind::Shrunk,
            .generation = 1,
            .begin = begin,
            .time = end,
            .members = members});
    add(r, {.kind = Event::Kind::BarrierBegun, .generation = 1, .time = end, .members = members});
    add(r, {.kind = Event::Kind::BarrierDone, .generation = 1, .time = end, .members = members});
  }
  void fail_shrink(int r, double begin, double end) {
    add(r, {.kind = Event::Kind::Shrinking, .time = begin, .members = kAll});
    add(r, {.kind = Event::Kind::ShrinkFailed, .begin = begin, .time = end, .members = kAll});
    add(r, {.kind = Event::Kind::Leaving, .time = end});
  }
  void finish(int r, RankSet members, int generation) {
    add(r, {.kind = Event::Kind::Finished,
            .generation = generation,
            .time = 9 + 0.01 * r,
            .members = members});
    add(r, {.kind = Event::Kind::Leaving, .time = 9.1});
    add(r, {.kind = Event::Kind::Left, .begin = 9.1, .time = 9.2});
  }
  void finish_all(RankSet ranks, int generation) {
    for (int r = 0; r < 4; ++r) {
      if (contains(ranks, r)) {
        finish(r, ranks, generation);
      }
    }
  }

  /// Rank 3 is stopped for two deadlines; the others declare it dead and continue, it does not.
  void give_up_rank_3() {
    strike(Fault::Kind::Stop, 3, 2, 4);
    for (int r = 0; r < 3; ++r) {
      fail_call(r, 2.1, 3.1, 0b1000);
      shrink(r, 3.1, 3.3, 0b0111);
    }
    finish_all(0b0111, 1);
    fail_shrink(3, 4.1, 4.2);
  }

  [[nodiscard]] std::vector<Rule> rules() const {
    std::vector<Rule> rules;
    for (const Violation& violation : judge(scenario_, record_).violations) {
      rules.push_back(violation.rule);
    }
    rules.erase(std::unique(rules.begin(), rules.end()), rules.end());
    return rules;
  }

  Scenario scenario_;
  Record record_;
};

using Rules = std::vector<Rule>;

TEST_F(JudgeTest, AcceptsRunWithoutFaults) {
  finish_all(kAll, 0);
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, AcceptsSurvivorsThatContinue) {
  give_up_rank_3();
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, FindsWrongResults) {
  finish_all(kAll, 0);
  add(1, {.kind = Event::Kind::WrongResult});
  EXPECT_EQ(rules(), Rules{Rule::RightResult});
}

TEST_F(JudgeTest, FindsCrashesAndFalseAccusations) {
  finish_all(kAll, 0);
  rank(1).end = RankRecord::End::Signaled;
  EXPECT_EQ(rules(), Rules{Rule::NoCrash});
  rank(1).end = RankRecord::End::Exited;
  add(2, {.kind = Event::Kind::LongCall, .fault = static_cast<int>(CommFault::Corrupt)});
  EXPECT_EQ(rules(), Rules{Rule::NoCrash});
}

TEST_F(JudgeTest, FindsRankThatContinuesAlone) {
  give_up_rank_3();
  auto& events = rank(3).events;
  events.erase(events.begin() + 3, events.end());
  shrink(3, 4.1, 4.2, 0b1000);
  EXPECT_EQ(rules(), (Rules{Rule::Majority, Rule::OneGroup}));
  record_.lateness = 5;  // which also holds on a busy machine
  EXPECT_EQ(rules(), (Rules{Rule::Majority, Rule::OneGroup}));
}

TEST_F(JudgeTest, FindsSplitBrain) {
  strike(Fault::Kind::Cut, 1, 2);
  for (int r = 0; r < 4; ++r) {
    const RankSet side = r < 2 ? 0b0011 : 0b1100;
    fail_call(r, 2.1, 3.1, kAll & ~side);
    shrink(r, 3.1, 3.3, side);
  }
  finish_all(0b0011, 1);
  EXPECT_EQ(rules(), (Rules{Rule::Majority, Rule::OneGroup}));
}

TEST_F(JudgeTest, LetsHalfWithLowestRankContinue) {
  strike(Fault::Kind::Cut, 1, 2);
  for (int r = 0; r < 2; ++r) {
    fail_call(r, 2.1, 3.1, 0b1100);
    shrink(r, 3.1, 3.3, 0b0011);
    fail_call(r + 2, 2.1, 3.1, 0b0011);
    fail_shrink(r + 2, 3.1, 3.3);
  }
  finish_all(0b0011, 1);
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, IgnoresDeadRanks) {
  for (const int r : {0, 1, 2}) {
    strike(Fault::Kind::Kill, r, 2);
  }
  fail_call(3, 2, 2.1, 0b0111);
  shrink(3, 2.1, 2.3, 0b1000);
  finish_all(0b1000, 1);
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, FindsForeignMembersAndLeakyBarriers) {
  strike(Fault::Kind::Stop, 3, 2);
  rank(3).end = RankRecord::End::Stopped;
  for (int r = 0; r < 3; ++r) {
    fail_call(r, 2.1, 3.1, 0b1000);
    shrink(r, 3.1, 3.3, 0b0111);
  }
  finish_all(0b0111, 1);
  rank(2).events[6].time = 5;  // enters the barrier long after the others left it
  EXPECT_EQ(rules(), Rules{Rule::Barrier});
  for (Event& event : rank(2).events) {
    event.members = event.kind == Event::Kind::Shrunk ? RankSet{0b10011} : event.members;
  }
  EXPECT_EQ(rules().front(),
            Rule::Barrier);  // no member of the new group reaches the others' barrier
  EXPECT_NE(std::ranges::count(rules(), Rule::Membership), 0);
}

TEST_F(JudgeTest, FindsCallsThatMissTheirDeadline) {
  give_up_rank_3();
  rank(1).events[3].time = 4.5;  // its call was entered at 2.1 s, rank 3 was lost at 2 s
  EXPECT_EQ(rules(), Rules{Rule::CallInTime});
  record_.lateness = 0.5;
  EXPECT_EQ(rules(), Rules{});
  EXPECT_EQ(judge(scenario_, record_).timing, Judgement::Timing::MachineBusy);
}

TEST_F(JudgeTest, ExpectsDeathDetectedSoonerThanSilence) {
  strike(Fault::Kind::Kill, 3, 2);
  for (int r = 0; r < 3; ++r) {
    fail_call(r, 1.9, 2.1, 0b1000);
    shrink(r, 2.1, 2.3, 0b0111);
  }
  finish_all(0b0111, 1);
  EXPECT_EQ(rules(), Rules{});
  rank(0).events[3].time = 3.1;
  EXPECT_EQ(rules(), Rules{Rule::CallInTime});
}

TEST_F(JudgeTest, FindsHungShrink) {
  strike(Fault::Kind::Stop, 3, 2);
  rank(3).end = RankRecord::End::Stopped;
  for (int r = 0; r < 3; ++r) {
    fail_call(r, 2.1, 3.1, 0b1000);
    add(r, {.kind = Event::Kind::Shrinking, .time = 3.1, .members = kAll});
    rank(r).end = RankRecord::End::Hung;
    rank(r).waiting_in = "shrink";
    rank(r).waiting_since = 3.1;
  }
  EXPECT_EQ(rules(), (Rules{Rule::ShrinkInTime, Rule::Survival}));
}

TEST_F(JudgeTest, LetsShrinkWaitForLateSurvivor) {
  give_up_rank_3();
  for (int r = 0; r < 3; ++r) {
    for (std::size_t i = 5; i < 8; ++i) {
      rank(r).events[i].time = 9;  // five seconds after the last fault ended
    }
  }
  record_.strikes[0].ended_after = record_.strikes[0].ended_before = 3.5;
  EXPECT_EQ(rules(), Rules{Rule::ShrinkInTime});
  rank(2).events[4].time = rank(2).events[5].begin = 8;  // when the last of them arrived
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, FindsSlowLeave) {
  finish_all(kAll, 0);
  rank(2).events.back().time = 12;
  EXPECT_EQ(rules(), Rules{Rule::LeaveInTime});
}

TEST_F(JudgeTest, FindsShortSilenceMistakenForFailure) {
  strike(Fault::Kind::Cut, 1, 2, 2.7);
  for (int r = 0; r < 2; ++r) {
    fail_call(r, 2.1, 3.1, 0b1100);
    shrink(r, 3.1, 3.3, 0b0011);
    fail_call(r + 2, 2.1, 3.1, 0b0011);
    fail_shrink(r + 2, 3.1, 3.3);
  }
  finish_all(0b0011, 1);
  EXPECT_EQ(rules(), Rules{Rule::Survival});
  record_.strikes[0].ended_after = record_.strikes[0].ended_before = 3;  // then either may happen
  EXPECT_EQ(rules(), Rules{});
}

TEST_F(JudgeTest, AddsUpShortSilences) {
  strike(Fault::Kind::Stop, 2, 2, 2.5);
  strike(Fault::Kind::Stop, 2, 2.6, 3.1);
  const Truth close(scenario_, record_);
  EXPECT_EQ(close.unharmed(), RankSet{0b1011});
  record_.strikes[1].began_after = record_.strikes[1].began_before = 5;
  record_.strikes[1].ended_after = record_.strikes[1].ended_before = 5.5;
  const Truth apart(scenario_, record_);
  EXPECT_EQ(apart.unharmed(), kAll);
}

TEST_F(JudgeTest, FindsLeakedResources) {
  finish_all(kAll, 0);
  record_.left_behind = {"/dev/shm/x"};
  EXPECT_EQ(rules(), Rules{Rule::NothingLeft});
}

/// Ranks 0 and 2 declare each other dead; 1 and 3 reach both and continue with rank 2, though host 0 has rank 0.
TEST_F(JudgeTest, CutNearDeadlineMayExcludeEitherSide) {
  const auto continue_without_0 = [&] {
    for (int r = 1; r < 4; ++r) {
      fail_call(r, 2.1, 3.05, 0b0001);
      shrink(r, 3.1, 3.3, 0b1110);
    }
    finish_all(0b1110, 1);
    fail_shrink(0, 3.1, 3.4);
  };
  strike(Fault::Kind::Cut, 1, 2, 3);
  continue_without_0();
  EXPECT_EQ(rules(), std::vector<Rule>{});
  record_.strikes.clear();
  strike(Fault::Kind::Cut, 1, 2, 2.7);  // harmless
  EXPECT_EQ(rules(), std::vector<Rule>{Rule::Survival});
}

}  // namespace
}  // namespace trireme::fault_fuzz
