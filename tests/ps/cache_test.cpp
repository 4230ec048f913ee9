// What a worker reads under each consistency model, through real clients and servers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numbers>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "ps/cluster.h"
#include "trireme/ps_cache.h"

namespace trireme::ps {
namespace {

constexpr std::uint32_t kShards = 4;

TableSpec table_with(Consistency consistency, ClockCount staleness, Key keys) {
  return {.name = "w",
          .keys = keys,
          .update = "add",
          .consistency = consistency,
          .staleness = staleness};
}

/// A worker with a copy of the table. All have joined the clocks when the constructor of the last returns.
struct Worker {
  Worker(const TestCluster& cluster, const TableSpec& spec)
      : client(cluster.client_options()),
        table(client.create_table(spec)),
        cache(client, table, spec) {
    client.start_iteration(table);
  }
  void start() {
    client.start_iteration(table);
    cache.refresh();
  }
  /// Waits for the push, and for an eager copy.
  void finish(std::span<const float> update) {
    cache.push(update);
    cache.flush();
    client.complete_iteration(table);
  }

  ParameterClient client;
  TableHandle table;
  TableCache cache;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

Workers make_workers(const TestCluster& cluster, const TableSpec& spec, int count) {
  Workers workers;
  for (int i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<Worker>(cluster, spec));
  }
  return workers;
}

bool may_start(Worker& worker) {
  return worker.client.wait_to_start(worker.table, {0.05});
}

/// Waits until others know this worker's clock.
void await_slowest(Worker& worker, ClockCount clock) {
  for (int i = 0; i < 30'000 && worker.client.slowest_clock(worker.table) < clock; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_GE(worker.client.slowest_clock(worker.table), clock);
}

TEST(Clocks, FastWorkerBlocksThreeIterationsAheadOfSlowest) {
  const TestCluster cluster({.servers = 1, .shards = kShards});
  const Workers workers = make_workers(cluster, table_with(Consistency::Ssp, 3, 1), 3);
  const std::vector<float> one{1};
  Worker& a = *workers[0];
  Worker& b = *workers[1];
  Worker& c = *workers[2];
  a.start();
  for (int i = 0; i < 4; ++i) {
    b.start();
    b.finish(one);
  }
  for (int i = 0; i < 3; ++i) {
    c.start();
    c.finish(one);
  }
  EXPECT_EQ(b.client.clock(b.table), 4);
  EXPECT_FALSE(may_start(b));  // A has completed 0, B 4, C 3
  EXPECT_TRUE(may_start(c));
  a.finish(one);
  await_slowest(b, 1);
  EXPECT_TRUE(may_start(b));
}

TEST(TableCache, ReadsAgainOnlyWhenModelRequiresIt) {
  const TestCluster cluster({.servers = 1, .shards = kShards});
  const auto reads = [&](Consistency consistency, ClockCount staleness) {
    TableSpec spec = table_with(consistency, staleness, 8);
    spec.name = fmt::format("{}-{}", to_text(consistency), staleness);
    const Workers workers = make_workers(cluster, spec, 2);
    const std::vector<float> ones(8, 1.0F);
    for (ClockCount i = 0; i < 12; ++i) {
      for (const auto& worker : workers) {
        await_slowest(*worker, i);
        worker->start();
        EXPECT_GE(worker->cache.clock(), i - staleness);
      }
      for (const auto& worker : workers) {
        worker->finish(ones);
      }
    }
    return workers[0]->cache.reads();
  };
  EXPECT_EQ(reads(Consistency::Bsp, 0), 12);
  EXPECT_EQ(reads(Consistency::Ssp, 0), 12);
  EXPECT_EQ(reads(Consistency::Ssp, 2), 4);
  EXPECT_EQ(reads(Consistency::Ssp, 3), 3);
  EXPECT_EQ(reads(Consistency::Async, 0), 12);
}

/// Whether a read shows one key of the only shard before, and another after a push of all of them.
bool mixes_moments(const TestCluster& cluster, Reads reads, int tries) {
  constexpr Key kKeys = 256;
  TableSpec spec = table_with(Consistency::Async, 0, kKeys);
  spec.width = 64;
  ParameterClient writer(cluster.client_options());
  const TableHandle table = writer.create_table(spec);
  std::atomic<bool> stopping = false;
  std::thread writing([&] {
    const std::vector<float> ones(kKeys * spec.width, 1.0F);
    while (!stopping) {
      writer.push(table, Keys::range(0, kKeys), ones).wait();
    }
  });
  ParameterClient reader(cluster.client_options());
  TableCache cache(reader, table, spec, {.reads = reads});
  bool is_mixed = false;
  for (int i = 0; i < tries && !is_mixed; ++i) {
    reader.start_iteration(table);
    cache.refresh();
    const std::span<const float> values = cache.values();
    is_mixed = std::ranges::any_of(values, [&](float value) { return value != values[0]; });
    reader.complete_iteration(table);
  }
  stopping = true;
  writing.join();
  return is_mixed;
}

TEST(TableCache, OnlyInconsistentReadsMixVersions) {
  const TestCluster cluster({.servers = 1, .shards = 1});
  EXPECT_FALSE(mixes_moments(cluster, Reads::Snapshot, 500));
  EXPECT_TRUE(mixes_moments(cluster, Reads::Inconsistent, 100'000));
}

TEST(TableCache, RejectsUncacheableTables) {
  const TestCluster cluster({.servers = 1, .shards = kShards});
  ParameterClient client(cluster.client_options());
  TableSpec sparse = table_with(Consistency::Async, 0, 8);
  sparse.layout = TableLayout::Sparse;
  EXPECT_THROW(TableCache(client, client.create_table(sparse), sparse), Error);
  TableSpec bsp = table_with(Consistency::Bsp, 0, 8);
  bsp.name = "bsp";
  EXPECT_THROW(TableCache(client, client.create_table(bsp), bsp, {.reads = Reads::Inconsistent}),
               Error);
}

/// Worker w counts its iterations in key w. In iteration c every key must be at least c - s, and the own one exactly c.
/// Returns how many values were verified.
std::int64_t verify_reads(TestCluster& cluster, Consistency consistency, ClockCount staleness,
                          ClockCount iterations, int failures) {
  constexpr int kWorkers = 4;
  const TableSpec spec = table_with(consistency, staleness, kWorkers);
  const Workers workers = make_workers(cluster, spec, kWorkers);
  std::atomic<std::int64_t> verified = 0;
  std::atomic<int> running = kWorkers;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      Worker& worker = *workers[static_cast<std::size_t>(w)];
      std::vector<float> one(kWorkers);
      one[static_cast<std::size_t>(w)] = 1;
      for (ClockCount c = 0; c < iterations; ++c) {
        worker.start();
        for (int other = 0; other < kWorkers; ++other) {
          const auto value =
              static_cast<ClockCount>(worker.cache.values()[static_cast<std::size_t>(other)]);
          EXPECT_GE(value, c - staleness) << "worker " << w << ", iteration " << c;
          EXPECT_TRUE(other != w || value == c) << "worker " << w << ", iteration " << c;
        }
        verified += kWorkers;
        worker.cache.push(one);
        worker.client.complete_iteration(worker.table);
      }
      --running;
    });
  }
  for (int i = 0; i < failures && running == kWorkers; ++i) {
    const auto server = static_cast<std::size_t>(i % 3);
    cluster.stop(server);
    std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * kTestLease.count));
    cluster.start(server);
    ParameterClient observer(cluster.client_options());
    while (!observer.status().is_healthy) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  std::ranges::for_each(threads, &std::thread::join);
  return verified;
}

TEST(TableCache, KeepsStalenessBoundWhileServersFail) {
  for (const auto& [consistency, staleness] :
       {std::pair(Consistency::Ssp, 3), std::pair(Consistency::Essp, 3)}) {
    TestCluster cluster({.servers = 3, .replicas = 2, .shards = kShards});
    EXPECT_EQ(verify_reads(cluster, consistency, staleness, 1500, 1), 24'000);
  }
}

TEST(LongTableCache, MillionReadsKeepStalenessBound) {
  TestCluster cluster({.servers = 3, .replicas = 2, .shards = kShards});
  EXPECT_EQ(verify_reads(cluster, Consistency::Ssp, 3, 62'500, 1000), 1'000'000);
}

// --- Staleness and convergence.

/// Gradient descent on f(x) = x² / 2 by four workers in lockstep, each with this rate: |x| after 60 iterations, from 1.
///
/// A worker whose copy lacks the others' last s iterations moves as if it were alone. Between two reads x becomes
/// x (1 - P (1 - (1 - rate)^(s+1))), so it diverges where P (1 - (1 - rate)^(s+1)) > 2: with P = 4 and a rate of 0.12
/// from s = 5 on.
double distance_after(Consistency consistency, ClockCount staleness) {
  constexpr float kRate = 0.12F;
  constexpr ClockCount kIterations = 60;
  const TestCluster cluster({.servers = 2, .shards = kShards});
  const Workers workers = make_workers(cluster, table_with(consistency, staleness, 1), 4);
  workers[0]->client.push(workers[0]->table, Keys::range(0, 1), std::vector<float>{1}).wait();
  for (ClockCount i = 0; i < kIterations; ++i) {
    std::vector<float> updates;
    for (const auto& worker : workers) {
      await_slowest(*worker, i);
      worker->start();
      updates.push_back(-kRate * worker->cache.values()[0]);
    }
    for (std::size_t w = 0; w < workers.size(); ++w) {
      workers[w]->finish(std::span(&updates[w], 1));
    }
  }
  std::vector<float> x(1);
  workers[0]->client.pull(workers[0]->table, Keys::range(0, 1), x).wait();
  return std::abs(static_cast<double>(x[0]));
}

TEST(Staleness, SmallConvergesLargeDivergesAndEagerRefreshConverges) {
  const double none = distance_after(Consistency::Ssp, 0);
  const double two = distance_after(Consistency::Ssp, 2);
  const double three = distance_after(Consistency::Ssp, 3);
  EXPECT_LT(none, 1e-6);
  EXPECT_LT(two, 1e-6);
  EXPECT_LT(three, 0.01);
  EXPECT_LT(two, three);
  EXPECT_NEAR(distance_after(Consistency::Ssp, 5), std::pow(1.14, 10), 1.0);
  EXPECT_GT(distance_after(Consistency::Ssp, 10), 10);
  EXPECT_LT(distance_after(Consistency::Essp, 0), 1e-6);
  EXPECT_LT(distance_after(Consistency::Essp, 10), 1e-3);
}

/// The regret bound of SSP (Ho et al. 2013, theorem 1): 4 F L √(2 (s+1) P / T), for convex losses with Lipschitz constant
/// L, distances |x - x'|² / 2 ≤ F², T updates of all workers, and rates σ/√t with σ = F / (L √(2 (s+1) P)).
double regret_bound(double f, double l, ClockCount s, int p, double t) {
  return 4 * f * l * std::sqrt(2 * static_cast<double>(s + 1) * p / t);
}

TEST(Staleness, RegretBoundHasKnownValues) {
  EXPECT_NEAR(regret_bound(std::numbers::sqrt2, 1, 3, 4, 1e4), 0.32, 1e-12);
  EXPECT_NEAR(regret_bound(std::numbers::sqrt2, 1, 0, 4, 1e4), 0.16, 1e-12);
  EXPECT_NEAR(regret_bound(1, 1, 3, 4, 4e4) * 2, regret_bound(1, 1, 3, 4, 1e4), 1e-12);
  EXPECT_NEAR(regret_bound(1, 1, 3, 4, 1e4), regret_bound(1, 1, 0, 4, 1e4) * 2, 1e-12);
}

/// The mean of |x̃_t - a_t| beyond that of the best x, over T updates. The a_t are 1, -1, 1, 1, -1, …: their median is 1,
/// so the best x is 1 and f(x*) = 2 · 2/5.
double measured_regret(ClockCount staleness, int workers, int updates) {
  const TestCluster cluster({.servers = 1, .shards = kShards});
  const Workers all = make_workers(cluster, table_with(Consistency::Ssp, staleness, 1), workers);
  const double sigma =
      std::numbers::sqrt2 / std::sqrt(2 * static_cast<double>(staleness + 1) * workers);
  double loss = 0;
  double best = 0;
  int t = 0;
  for (ClockCount i = 0; t < updates; ++i) {
    std::vector<float> steps;
    for (const auto& worker : all) {
      await_slowest(*worker, i);
      worker->start();
      const double target = t % 5 == 1 || t % 5 == 4 ? -1 : 1;
      const double x = worker->cache.values()[0];
      loss += std::abs(x - target);
      best += std::abs(1 - target);
      ++t;
      steps.push_back(static_cast<float>((x > target ? -sigma : sigma) / std::sqrt(t)));
    }
    for (std::size_t w = 0; w < all.size(); ++w) {
      all[w]->finish(std::span(&steps[w], 1));
    }
  }
  return (loss - best) / t;
}

TEST(Staleness, MeasuredRegretIsBelowBound) {
  for (const auto& [staleness, workers, updates] :
       {std::tuple(0, 4, 400), std::tuple(3, 4, 400), std::tuple(3, 2, 400)}) {
    const double bound = regret_bound(std::numbers::sqrt2, 1, staleness, workers, updates);
    const double regret = measured_regret(staleness, workers, updates);
    EXPECT_LT(regret, bound) << staleness << " " << workers << " " << updates;
    RecordProperty(fmt::format("s{}p{}t{}", staleness, workers, updates),
                   fmt::format("regret {:.3f}, bound {:.3f}", regret, bound));
  }
}

TEST(LongStaleness, TenThousandUpdatesAreBelowBound) {
  for (const ClockCount staleness : {0, 3}) {
    EXPECT_LT(measured_regret(staleness, 4, 10'000),
              regret_bound(std::numbers::sqrt2, 1, staleness, 4, 1e4));
  }
}

}  // namespace
}  // namespace trireme::ps
