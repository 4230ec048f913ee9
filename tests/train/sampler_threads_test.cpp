// Master and workers as threads of one process: assignments, epochs, and requests that are refused.
#include <functional>
#include <latch>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "train/samples.h"
#include "trireme/sampler.h"

namespace trireme {
namespace {

/// The samples that each rank consumes, in order.
using Consumed = std::map<Rank, Samples>;

/// Rank 0 serves, the others run `worker`.
Consumed run_on_threads(Rank ranks, const std::function<void(SampleMaster&)>& serve,
                        const std::function<void(Rank, Sampler&)>& worker) {
  Consumed consumed;
  run_threads(ranks, [&](World& world) {
    if (world.rank() == 0) {
      SampleMaster master(world.all(), [&](Rank rank, std::span<const SampleIndex> samples) {
        consumed[rank].insert(consumed[rank].end(), samples.begin(), samples.end());
      });
      serve(master);
    } else {
      const auto sampler = make_sampler(world.all(), 0);
      worker(world.rank(), *sampler);
    }
  });
  return consumed;
}

void consume_epoch(Sampler& sampler) {
  for (Samples some = sampler.take(3); !some.empty(); some = sampler.take(3)) {
    sampler.confirm(std::ssize(some));
  }
}

TEST(SampleLists, MasterAssignsAndOrdersSamplesOfEachWorker) {
  const std::vector<Samples> lists{{}, {9, 2, 2, 40}, {}, {2, 7, 1, 8, 2, 8}};
  const Consumed consumed = run_on_threads(
      4,
      [&](SampleMaster& master) {
        const ServeReport report = master.serve_lists(lists);
        EXPECT_EQ(report.consumed, (std::vector<std::int64_t>{0, 4, 0, 6}));
        EXPECT_TRUE(report.lost.empty());
      },
      [](Rank, Sampler& sampler) { consume_epoch(sampler); });
  EXPECT_EQ(consumed, (Consumed{{1, lists[1]}, {3, lists[3]}}));
}

TEST(SampleMaster, ServesEpochAfterEpoch) {
  std::vector<std::int64_t> totals;
  run_on_threads(
      3,
      [&](SampleMaster& master) {
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          const ServeReport report = master.serve_pool({.samples = 50, .epoch = epoch});
          totals.push_back(report.consumed[1] + report.consumed[2]);
        }
        // In proportion to their speeds.
        (void)master.serve_lists(lists_by_speed({.samples = 20}, std::vector<double>{0, 1, 3}));
      },
      [](Rank rank, Sampler& sampler) {
        for (int epoch = 0; epoch < 3; ++epoch) {
          consume_epoch(sampler);
        }
        EXPECT_EQ(sampler.take(100).size(), rank == 1 ? 5U : 15U);
        sampler.confirm(rank == 1 ? 5 : 15);
        EXPECT_TRUE(sampler.take(1).empty());
      });
  EXPECT_EQ(totals, (std::vector<std::int64_t>{50, 50, 50}));
}

TEST(SampleMaster, LeavingWorkerReturnsItsSamples) {
  std::latch taken(1);  // by rank 1; otherwise rank 2 might take all samples first
  const Consumed consumed = run_on_threads(
      3,
      [](SampleMaster& master) {
        const ServeReport report = master.serve_pool({.samples = 30});
        EXPECT_EQ(report.consumed, (std::vector<std::int64_t>{0, 5, 25}));
        EXPECT_EQ(report.lost,
                  (std::map<Rank, std::string>{{1, "rank 1 left: it takes no more samples"}}));
      },
      [&](Rank rank, Sampler& sampler) {
        if (rank == 1) {
          EXPECT_EQ(sampler.take(5).size(), 5U);
          EXPECT_EQ(sampler.take(5).size(), 5U);
          taken.count_down();
          sampler.confirm(5);
        } else {
          taken.wait();
          consume_epoch(sampler);
        }
      });
  EXPECT_EQ(consumed.at(2).size(), 25U);
}

// A worker that takes ahead must not wait for itself.
TEST(SampleMaster, GivesNothingWhileRestIsUnconfirmed) {
  run_on_threads(
      2, [](SampleMaster& master) { (void)master.serve_pool({.samples = 8}); },
      [](Rank, Sampler& sampler) {
        EXPECT_EQ(sampler.take(100).size(), 8U);
        EXPECT_TRUE(sampler.take(100).empty());
        sampler.confirm(6);
        EXPECT_TRUE(sampler.take(100).empty());
        sampler.confirm(2);
        EXPECT_TRUE(sampler.take(100).empty());
      });
}

TEST(SampleMaster, RejectsInvalidRequests) {
  run_threads(1, [](World& world) {
    EXPECT_EQ(error_message(ErrorKind::Usage, [&] { const SampleMaster master(world.all()); }),
              "sampler: the master is alone in its group, without workers");
    EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)make_sampler(world.all(), 0); }),
              "sampler: rank 0 as the master of rank 0; it must be another one of the group's 1");
    EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)make_sampler(world.all(), 7); }),
              "sampler: rank 7 as the master of rank 0; it must be another one of the group's 1");
  });
  run_on_threads(
      2,
      [](SampleMaster& master) {
        EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)master.serve_pool({.samples = 0}); }),
                  "sampler: 0 samples; there must be at least one");
        EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)master.serve_lists({{}}); }),
                  "sampler: 1 lists for 2 ranks");
        EXPECT_EQ(error_message(ErrorKind::Usage,
                                [&] {
                                  (void)master.serve_lists({{1}, {2}});
                                }),
                  "sampler: rank 0 is the master and takes no samples, but has a list of them");
      },
      [](Rank, Sampler&) {});
}

}  // namespace
}  // namespace trireme
