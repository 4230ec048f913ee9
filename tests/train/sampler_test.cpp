// Samplers without other processes: shards, lists by speed, and the master's ledger.
#include "trireme/sampler.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "train/sampler/ledger.h"
#include "train/samples.h"

namespace trireme {
namespace {

using train::SampleLedger;

Samples all_of(const Shard& shard) {
  Samples samples(static_cast<std::size_t>(shard.size()));
  for (std::int64_t i = 0; i < shard.size(); ++i) {
    samples[i] = shard.at(i);
  }
  return samples;
}

Samples sorted(Samples samples) {
  std::ranges::sort(samples);
  return samples;
}

Samples first_numbers(std::int64_t n) {
  Samples numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void append(Samples& to, const Samples& some) {
  to.insert(to.end(), some.begin(), some.end());
}

// The even split is an exact partition, even when sizes do not divide and some workers get nothing.
TEST(Shard, EvenSplitContainsEverySampleOnce) {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 64, 97, 100}) {
    for (Rank workers = 1; workers <= 12; ++workers) {
      Samples all;
      for (Rank w = 0; w < workers; ++w) {
        const Shard shard({.samples = n, .workers = workers, .seed = 5, .epoch = 3}, w);
        EXPECT_GE(shard.size(), n / workers);
        EXPECT_LE(shard.size(), (n + workers - 1) / workers);
        append(all, all_of(shard));
      }
      ASSERT_EQ(sorted(all), first_numbers(n)) << n << " samples, " << workers << " workers";
    }
  }
}

/// Whether the shards of the workers in `alive`, a bit set, contain all samples.
bool cover(const std::vector<Samples>& shards, unsigned alive, std::int64_t n) {
  std::set<SampleIndex> covered;
  for (std::size_t w = 0; w < shards.size(); ++w) {
    if ((alive >> w & 1U) != 0) {
      covered.insert(shards[w].begin(), shards[w].end());
    }
  }
  return std::ssize(covered) == n;
}

// Every set of losses of up to 8 workers. R-1 losses are always survived. R losses of neighbors are not, so the test
// would detect shards that are too large.
TEST(Shard, ReplicationSurvivesFewerLossesThanReplicas) {
  for (const std::int64_t n : {8, 61}) {
    for (Rank workers = 1; workers <= 8; ++workers) {
      for (Rank replication = 1; replication <= workers; ++replication) {
        std::vector<Samples> shards;
        for (Rank w = 0; w < workers; ++w) {
          shards.push_back(all_of(
              Shard({.samples = n, .workers = workers, .replication = replication, .seed = 1}, w)));
        }
        const unsigned everyone = (1U << static_cast<unsigned>(workers)) - 1;
        for (unsigned lost = 0; lost <= everyone; ++lost) {
          if (std::popcount(lost) < replication) {
            ASSERT_TRUE(cover(shards, everyone & ~lost, n)) << workers << ' ' << replication;
          }
        }
        const unsigned neighbours = (1U << static_cast<unsigned>(replication)) - 1;
        EXPECT_FALSE(cover(shards, everyone & ~neighbours, n)) << workers << ' ' << replication;
      }
    }
  }
}

TEST(Shard, ReplicationPutsEachSampleIntoGivenNumberOfShards) {
  std::map<SampleIndex, int> holders;
  for (Rank w = 0; w < 5; ++w) {
    for (const SampleIndex sample :
         all_of(Shard({.samples = 23, .workers = 5, .replication = 3, .seed = 2}, w))) {
      ++holders[sample];
    }
  }
  EXPECT_EQ(holders.size(), 23U);
  EXPECT_TRUE(std::ranges::all_of(holders, [](const auto& held) { return held.second == 3; }));
}

TEST(Shard, ReordersItsSamplesEveryEpoch) {
  const auto in_epoch = [](std::int64_t epoch) {
    return all_of(
        Shard({.samples = 1000, .workers = 4, .replication = 2, .seed = 9, .epoch = epoch}, 1));
  };
  EXPECT_NE(in_epoch(0), in_epoch(1));
  EXPECT_EQ(in_epoch(1), in_epoch(1));
  EXPECT_EQ(sorted(in_epoch(0)), sorted(in_epoch(1)));
  const Samples other =
      all_of(Shard({.samples = 1000, .workers = 4, .replication = 2, .seed = 8}, 1));
  EXPECT_NE(sorted(in_epoch(0)), sorted(other));
}

TEST(Shard, SupportsHugeData) {
  const std::int64_t n = std::int64_t{1} << 61;
  const Shard shard({.samples = n, .workers = 1000, .replication = 7}, 999);
  EXPECT_GE(shard.size(), 7 * (n / 1000));
  EXPECT_LT(shard.at(shard.size() - 1), n);
}

TEST(Shard, RejectsInvalidNumbers) {
  const auto refused = [](const ShardOptions& options, Rank worker = 0) {
    return error_message(ErrorKind::Usage, [&] { (void)Shard(options, worker); });
  };
  EXPECT_EQ(refused({.samples = 0}), "sampler: 0 samples; there must be at least one");
  EXPECT_EQ(refused({.samples = -3}), "sampler: -3 samples; there must be at least one");
  EXPECT_EQ(refused({.samples = 5, .workers = 0}),
            "sampler: 0 workers; there must be at least one");
  EXPECT_EQ(refused({.samples = 5, .workers = 2}, 2),
            "sampler: worker 2 of 2; they are numbered from 0 to 1");
  EXPECT_EQ(refused({.samples = 5, .workers = 2}, -1),
            "sampler: worker -1 of 2; they are numbered from 0 to 1");
  EXPECT_EQ(refused({.samples = 5, .workers = 2, .replication = 3}),
            "sampler: each sample in 3 shards of 2 workers; it can be in 1 to 2");
  EXPECT_EQ(refused({.samples = 5, .workers = 2, .replication = 0}),
            "sampler: each sample in 0 shards of 2 workers; it can be in 1 to 2");
  EXPECT_EQ(refused({.samples = 5, .epoch = -1}), "sampler: epoch -1; they are numbered from 0");
  const Shard shard({.samples = 5}, 0);
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)shard.at(5); }),
            "sampler: place 5 is out of range in a shard of 5");
}

TEST(ShardSampler, ServesEpochAfterEpoch) {
  const ShardOptions options{.samples = 20, .workers = 3, .replication = 2, .seed = 4};
  const auto sampler = make_sampler(options, 2);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    ShardOptions here = options;
    here.epoch = epoch;
    Samples taken;
    for (Samples some = sampler->take(4); !some.empty(); some = sampler->take(4)) {
      append(taken, some);
      sampler->confirm(std::ssize(some));
    }
    EXPECT_EQ(taken, all_of(Shard(here, 2)));
  }
}

TEST(ShardSampler, EpochEndsOnceAllSamplesAreConfirmed) {
  const auto sampler = make_sampler({.samples = 3}, 0);
  EXPECT_EQ(sampler->take(5).size(), 3U);
  EXPECT_TRUE(sampler->take(5).empty());
  EXPECT_EQ(sampler->unconfirmed(), 3);
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { sampler->confirm(4); }),
            "sampler: confirm(4); 3 are taken and not confirmed");
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { sampler->confirm(-1); }),
            "sampler: confirm(-1); 3 are taken and not confirmed");
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)sampler->take(0); }),
            "sampler: take(0); it must be at least 1");
  sampler->confirm(3);
  EXPECT_TRUE(sampler->take(5).empty());
  EXPECT_EQ(sampler->take(5).size(), 3U);
}

TEST(ListsBySpeed, SplitsInProportion) {
  const std::vector<double> speeds{0, 3, 1, 0, 2};
  const auto lists = lists_by_speed({.samples = 601, .seed = 3}, speeds);
  Samples all;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    EXPECT_NEAR(static_cast<double>(lists[rank].size()), 601 * speeds[rank] / 6,
                speeds[rank] == 0 ? 0 : 1);
    append(all, lists[rank]);
  }
  EXPECT_EQ(sorted(all), first_numbers(601));
}

TEST(ListsBySpeed, RejectsInvalidSpeeds) {
  const auto refused = [](std::vector<double> speeds) {
    return error_message(ErrorKind::Usage, [&] { (void)lists_by_speed({.samples = 5}, speeds); });
  };
  EXPECT_EQ(refused({0, 0}), "sampler: no rank has a speed above 0");
  EXPECT_EQ(refused({}), "sampler: no rank has a speed above 0");
  EXPECT_EQ(refused({1, -2}), "sampler: a speed of -2; it must be a number from 0 on");
  EXPECT_EQ(refused({std::numeric_limits<double>::infinity()}),
            "sampler: a speed of inf; it must be a number from 0 on");
}

// The ledger, compared with a model of who has each sample. Workers take, confirm and are lost in any order.
class LedgerGame {
 public:
  LedgerGame(SampleLedger ledger, Samples open, Rank workers, unsigned seed)
      : ledger_(std::move(ledger)),
        open_(open.begin(), open.end()),
        taken_(workers),
        random_(seed) {
    alive_.resize(workers);
    std::iota(alive_.begin(), alive_.end(), 0);
  }

  void play(int moves) {
    for (int i = 0; i < moves; ++i) {
      const Rank worker = alive_[number(std::ssize(alive_))];
      switch (number(8)) {
        case 0:
          if (alive_.size() > 1) {
            lose(worker);
          }
          break;
        case 1:
        case 2:
        case 3:
          confirm(worker, number(std::ssize(taken_[worker]) + 1));
          break;
        default:
          take(worker, 1 + number(6));
      }
      ASSERT_EQ(ledger_.left(), std::ssize(open_) + held());
      ASSERT_EQ(ledger_.is_over(), open_.empty() && held() == 0);
    }
  }

  /// The remaining workers take and confirm until nothing is left; returns everything consumed.
  Samples finish() {
    for (const Rank worker : alive_) {
      confirm(worker, std::ssize(taken_[worker]));
    }
    for (std::size_t i = 0; i < 10'000 && !ledger_.is_over(); ++i) {
      const Rank worker = alive_[i % alive_.size()];
      take(worker, 3);
      confirm(worker, std::ssize(taken_[worker]));
    }
    EXPECT_TRUE(ledger_.is_over());
    return sorted(consumed_);
  }

 private:
  std::int64_t number(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(random_);
  }
  [[nodiscard]] std::int64_t held() const {
    std::int64_t count = 0;
    for (const Samples& some : taken_) {
      count += std::ssize(some);
    }
    return count;
  }

  void take(Rank worker, std::int64_t count) {
    const Samples some = ledger_.take(worker, count);
    ASSERT_LE(std::ssize(some), count);
    for (const SampleIndex sample : some) {
      const auto found = open_.find(sample);
      ASSERT_NE(found, open_.end()) << "sample " << sample << " is not open";
      open_.erase(found);
    }
    append(taken_[worker], some);
    ASSERT_EQ(ledger_.holds_some(worker), !taken_[worker].empty());
  }
  void confirm(Rank worker, std::int64_t count) {
    Samples& mine = taken_[worker];
    const Samples expected(mine.begin(), mine.begin() + count);
    ASSERT_EQ(ledger_.confirm(worker, count), expected);
    append(consumed_, expected);
    mine.erase(mine.begin(), mine.begin() + count);
  }
  void lose(Rank worker) {
    ledger_.lose(worker);
    open_.insert(taken_[worker].begin(), taken_[worker].end());
    taken_[worker].clear();
    std::erase(alive_, worker);
  }

  SampleLedger ledger_;
  std::multiset<SampleIndex> open_;
  std::vector<Samples> taken_;
  std::vector<Rank> alive_;
  Samples consumed_;
  std::mt19937 random_;
};

TEST(SampleLedger, PoolIsConsumedOnceUnderAnyInterleaving) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Rank workers = 1 + static_cast<Rank>(seed % 6);
    const std::int64_t n = 1 + seed % 71;
    LedgerGame game(SampleLedger({.samples = n, .seed = seed}, workers), first_numbers(n), workers,
                    seed);
    game.play(static_cast<int>(seed % 60));
    ASSERT_EQ(game.finish(), first_numbers(n)) << seed;
    ASSERT_FALSE(HasFailure());
  }
}

TEST(SampleLedger, ListsAreConsumedOnceUnderAnyInterleaving) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Rank workers = 2 + static_cast<Rank>(seed % 5);
    std::mt19937 random(seed);
    std::vector<Samples> lists(workers);
    Samples all;
    for (Samples& list : lists) {  // any samples, including duplicates
      list.resize(random() % 20);
      std::ranges::generate(list, [&] { return static_cast<SampleIndex>(random() % 50); });
      append(all, list);
    }
    LedgerGame game(SampleLedger(lists), all, workers, seed);
    game.play(static_cast<int>(seed % 60));
    // A live worker's list is its own; together, the workers consume everything.
    ASSERT_EQ(game.finish(), sorted(all)) << seed;
    ASSERT_FALSE(HasFailure());
  }
}

TEST(SampleLedger, ServesOwnListThenReturnedSamples) {
  SampleLedger ledger({{1, 2, 3}, {4, 5}, {}});
  EXPECT_TRUE(ledger.take(2, 5).empty()) << "no worker is lost";
  EXPECT_EQ(ledger.take(1, 1), (Samples{4}));
  EXPECT_EQ(ledger.take(0, 2), (Samples{1, 2}));
  ledger.lose(1);
  EXPECT_EQ(ledger.take(2, 1), (Samples{4}));
  EXPECT_EQ(ledger.take(0, 5), (Samples{3, 5}));
}

TEST(SampleLedger, PoolOrderDiffersPerEpoch) {
  const auto order = [](std::int64_t epoch) {
    return SampleLedger({.samples = 100, .seed = 1, .epoch = epoch}, 1).take(0, 100);
  };
  EXPECT_EQ(order(0), order(0));
  EXPECT_NE(order(0), order(1));
  EXPECT_NE(order(0), first_numbers(100));
}

}  // namespace
}  // namespace trireme
