// Injected errors. Every transfer of every schedule is dropped, duplicated, sent to every other
// rank, and moved to every other step; the verifier must find each mutation that changes what the
// collective computes. An oracle that shares no code with the verifier decides that: it runs the
// schedule on numbers.
#include <set>

#include <gtest/gtest.h>

#include "collective/every_schedule.h"
#include "trireme/collective.h"

namespace trireme {
namespace {

/// Whether running it on numbers gives every rank what the operation promises. Rank r's own data is
/// the r-th unit vector, so a result counts how often each rank's data is in it; data that a rank
/// does not have is poison.
bool computes_the_right_result(const Schedule& schedule) {
  const bool sums = combines(schedule.operation);
  const bool barrier = schedule.operation == Operation::Barrier;
  const bool rooted =
      schedule.operation == Operation::Broadcast || schedule.operation == Operation::Scatter;
  const auto ranks = static_cast<std::size_t>(schedule.ranks);
  const auto origin = [&](Block b) {
    return rooted ? schedule.root
                  : static_cast<Rank>(schedule.layout == Layout::Pairs ? b / schedule.ranks : b);
  };
  Values values(ranks);
  for (Rank r = 0; r < schedule.ranks; ++r) {
    for (Block b = 0; b < schedule.blocks; ++b) {
      std::vector<double> data(ranks, sums || barrier || origin(b) == r ? 0.0 : -1000.0);
      data[r] += 1;
      values[r].push_back(std::move(data));
    }
  }
  replay(schedule, values);
  for (Rank r = 0; r < schedule.ranks; ++r) {
    for (Block b = 0; b < schedule.blocks; ++b) {
      for (Rank s = 0; promise(schedule, r, b).wanted && s < schedule.ranks; ++s) {
        const double count = values[r][b][s];
        const double expected = sums || barrier || s == origin(b) ? 1.0 : 0.0;
        if (barrier ? count < 1 : count != expected) {
          return false;
        }
      }
    }
  }
  return true;
}

struct Tally {
  int planted = 0;
  int missed = 0;
};

template <class Change>
void plant(const Case& c, const Schedule& schedule, Tally& tally, const Change& change) {
  for (std::size_t t = 0; t < schedule.steps.size(); ++t) {
    for (std::size_t i = 0; i < schedule.steps[t].transfers.size(); ++i) {
      change(t, i, [&](const Schedule& mutant, const std::string& what) {
        ++tally.planted;
        if (problems(mutant).empty()) {
          ++tally.missed;
          ADD_FAILURE() << c.text() << ", step " << t + 1 << ", transfer " << i << ": " << what
                        << " was not detected";
        }
      });
    }
  }
}

template <class Visitor>
void for_small_schedules(const Visitor& visit) {
  for_every_schedule(
      2, 9, [&](const Case& c, const Schedule& schedule) { visit(c, spelled_out(schedule)); });
}

TEST(Mutation, UnchangedSchedulesAreCorrect) {
  for_small_schedules([](const Case& c, const Schedule& schedule) {
    EXPECT_TRUE(computes_the_right_result(schedule)) << c.text();
  });
}

TEST(Mutation, DroppingAnyTransferIsCaught) {
  Tally tally;
  for_small_schedules([&](const Case& c, const Schedule& schedule) {
    plant(c, schedule, tally, [&](std::size_t t, std::size_t i, const auto& check) {
      Schedule mutant = schedule;
      mutant.steps[t].transfers.erase(mutant.steps[t].transfers.begin() +
                                      static_cast<std::ptrdiff_t>(i));
      check(mutant, "dropping it");
    });
  });
  EXPECT_GT(tally.planted, 20000);
}

TEST(Mutation, DuplicatingAnyTransferIsCaught) {
  Tally tally;
  for_small_schedules([&](const Case& c, const Schedule& schedule) {
    plant(c, schedule, tally, [&](std::size_t t, std::size_t i, const auto& check) {
      Schedule mutant = schedule;
      const Transfer twin = schedule.steps[t].transfers[i];
      mutant.steps[t].transfers.push_back(twin);
      check(mutant, "doubling it in its step");
      if (c.operation == Operation::Barrier) {
        return;  // a rank that sends again may have received more since: nothing is wrong with that
      }
      mutant = schedule;
      mutant.steps.insert(mutant.steps.begin() + static_cast<std::ptrdiff_t>(t) + 1,
                          Step{{twin}, {}});
      check(mutant, "repeating it after its step");
    });
  });
  EXPECT_GT(tally.planted, 40000);
}

// A partial sum may reach the root by another route (in a chain reduce, rank 3's goes to rank 1
// instead of rank 2): such a schedule is still correct, and the verifier must accept it. Data that
// is only moved has no other route.
TEST(Mutation, RedirectingAnyTransferIsCaughtUnlessResultIsUnaffected) {
  Tally tally;
  int still_right = 0;
  for_small_schedules([&](const Case& c, const Schedule& schedule) {
    plant(c, schedule, tally, [&](std::size_t t, std::size_t i, const auto& check) {
      const Transfer original = schedule.steps[t].transfers[i];
      for (Rank to = 0; to < schedule.ranks; ++to) {
        if (to == original.to || to == original.from) {
          continue;
        }
        Schedule mutant = schedule;
        mutant.steps[t].transfers[i].to = to;
        const bool moves_only = !combines(c.operation) && c.operation != Operation::Barrier;
        if (moves_only || !computes_the_right_result(mutant)) {
          check(mutant, "sending it to rank " + std::to_string(to));
        } else {
          still_right += problems(mutant).empty() ? 1 : 0;
        }
      }
    });
  });
  EXPECT_GT(tally.planted, 90000);
  EXPECT_GT(still_right, 1000);
}

/// Whether a later message depends on this one or it depends on an earlier one, in the given
/// schedule.
bool order_matters(const Schedule& schedule, std::size_t t, std::size_t i, std::size_t target) {
  const Transfer& moved = schedule.steps[t].transfers[i];
  std::set<Block> blocks;
  for_each_block(moved.blocks, [&](Block b) { blocks.insert(b); });
  const auto shares_a_block = [&](const Transfer& other) {
    bool shares = false;
    for_each_block(other.blocks, [&](Block b) { shares = shares || blocks.contains(b); });
    return shares;
  };
  // Moving later: past a message that forwards what this one delivered. Moving earlier: past the
  // one that delivered it.
  const std::size_t first = target > t ? t + 1 : target;
  const std::size_t last = target > t ? target : t - 1;
  for (std::size_t s = first; s <= last; ++s) {
    for (const Transfer& other : schedule.steps[s].transfers) {
      const bool chained = target > t ? other.from == moved.to : other.to == moved.from;
      if (chained && shares_a_block(other)) {
        return true;
      }
    }
  }
  return false;
}

// A transfer can often be moved without harm (the leaves of a tree in any order, a late addend
// before the root has sent). The verifier must reject a harmful move: whenever the numbers are
// wrong, and for data that is only moved whenever a message would have to wait for a later one.
TEST(Mutation, ReorderingThatBreaksDependencyIsCaught) {
  int broken = 0;
  int harmless = 0;
  for_small_schedules([&](const Case& c, const Schedule& schedule) {
    Tally tally;
    plant(c, schedule, tally, [&](std::size_t t, std::size_t i, const auto& check) {
      for (std::size_t target = 0; target < schedule.steps.size(); ++target) {
        if (target == t) {
          continue;
        }
        Schedule mutant = schedule;
        mutant.steps[t].transfers.erase(mutant.steps[t].transfers.begin() +
                                        static_cast<std::ptrdiff_t>(i));
        mutant.steps[target].transfers.push_back(schedule.steps[t].transfers[i]);
        const bool wrong = !computes_the_right_result(mutant);
        const bool moves_only = !combines(c.operation) && c.operation != Operation::Barrier;
        const bool chained = moves_only && order_matters(schedule, t, i, target);
        if (wrong || chained) {
          ++broken;
          check(mutant, "moving it to step " + std::to_string(target + 1));
        } else {
          harmless += problems(mutant).empty() ? 1 : 0;
        }
      }
    });
  });
  EXPECT_GT(broken, 50000);
  EXPECT_GT(harmless, 1000);  // no false positives either
}

}  // namespace
}  // namespace trireme
