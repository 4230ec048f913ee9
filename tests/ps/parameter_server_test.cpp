#include "trireme/parameter_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "comm/net/socket.h"
#include "expect_error.h"
#include "ps/cluster.h"

namespace trireme::ps {
namespace {

void wait_until_healthy(ParameterClient& client) {
  ClusterStatus status = client.status();
  for (int i = 0; i < 600 && !status.is_healthy; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    status = client.status();
  }
  std::string places;
  for (const ShardPlace& place : status.shards) {
    places += fmt::format("epoch {}: chain {}, learner {}\n", place.epoch, to_text(place.chain),
                          to_text(place.learners));
  }
  ASSERT_TRUE(status.is_healthy) << places << fmt::format("{}", fmt::join(status.servers, ", "));
}

TEST(ParameterServer, AddsPushesByRangeAndByKeys) {
  TestCluster cluster({.servers = 2, .shards = 7});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table({.name = "w", .keys = 100, .width = 3});
  std::vector<float> ones(300, 1.0F);
  client.push(table, Keys::range(0, 100), ones).wait();
  const std::vector<Key> some{3, 50, 99};
  const std::vector<float> more{1, 2, 3, 4, 5, 6, 7, 8, 9};
  client.push(table, Keys::list(some), more).wait();
  std::vector<float> values(300);
  client.pull(table, Keys::range(0, 100), values).wait();
  EXPECT_EQ(values[3 * 3 + 1], 3);
  EXPECT_EQ(values[50 * 3 + 2], 7);
  EXPECT_EQ(values[99 * 3], 8);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), 345);
  std::vector<float> few(9);
  client.push_pull(table, Keys::list(some), more, few).wait();
  EXPECT_EQ(few, (std::vector<float>{3, 5, 7, 9, 11, 13, 15, 17, 19}));
}

TEST(ParameterServer, MovesLargeVectorsUnchanged) {
  TestCluster cluster({.servers = 2, .replicas = 2, .shards = 3});
  ParameterClient client(cluster.client_options());
  constexpr std::uint32_t kWidth = 1 << 20;
  const TableHandle table = client.create_table({.name = "w", .keys = 3, .width = kWidth});
  std::vector<float> numbers(3 * kWidth);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  std::vector<float> values(numbers.size());
  for (int round = 1; round <= 3; ++round) {
    client.push_pull(table, Keys::range(0, 3), numbers, values).wait();
    for (std::size_t i = 0; i < values.size(); i += 997) {
      ASSERT_EQ(values[i], static_cast<float>(round) * numbers[i]) << i;
    }
  }
}

// Large answers are received straight into the caller's memory, which may go away in the middle of one.
TEST(ParameterServer, DoesNotTouchMemoryOfAbandonedOperation) {
  TestCluster cluster({.servers = 1, .shards = 1});
  ParameterClient client(cluster.client_options());
  constexpr std::uint32_t kWidth = 1 << 22;
  const TableHandle table = client.create_table({.name = "w", .keys = 1, .width = kWidth});
  const std::vector<float> ones(kWidth, 1.0F);
  client.push(table, Keys::range(0, 1), ones).wait();
  for (int i = 0; i < 30; ++i) {
    std::vector<float> abandoned(kWidth);
    {
      const PendingOperation pull = client.pull(table, Keys::range(0, 1), abandoned);
      std::this_thread::sleep_for(std::chrono::microseconds(400 * i));
    }
    std::ranges::fill(abandoned, -1.0F);
    std::vector<float> values(kWidth);
    client.pull(table, Keys::range(0, 1), values).wait();
    ASSERT_EQ(std::ranges::count(values, 1.0F), kWidth);
    ASSERT_EQ(std::ranges::count(abandoned, -1.0F), kWidth);
  }
}

TEST(ParameterServer, KeepsSparseTablesWithHugeKeys) {
  TestCluster cluster({.servers = 1});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table(
      {.name = "s", .keys = Key{1} << 60, .width = 2, .layout = TableLayout::Sparse});
  const std::vector<Key> keys{5, Key{1} << 40, (Key{1} << 60) - 1};
  const std::vector<float> gradient{1, 2, 3, 4, 5, 6};
  client.push(table, Keys::list(keys), gradient).wait();
  const std::vector<Key> asked{4, 5, (Key{1} << 60) - 1};
  std::vector<float> values(6, -1);
  client.pull(table, Keys::list(asked), values).wait();
  EXPECT_EQ(values, (std::vector<float>{0, 0, 1, 2, 5, 6}));
}

TEST(ParameterServer, EncryptsWithTls) {
  TestCluster cluster({.servers = 2, .replicas = 2, .encrypt = Encrypt::Yes});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table({.name = "w", .keys = 8, .width = 50'000});
  const std::vector<float> ones(400'000, 1.0F);
  std::vector<float> values(400'000);
  client.push(table, Keys::range(0, 8), ones).wait();
  client.push_pull(table, Keys::range(0, 8), ones, values).wait();
  EXPECT_EQ(std::ranges::count(values, 2.0F), 400'000);
}

TEST(ParameterServer, UsesAllReactorsOfServer) {
  TestCluster cluster({.servers = 2, .reactors = 3, .replicas = 2, .shards = 32});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table({.name = "w", .keys = 320});
  const std::vector<float> ones(320, 1.0F);
  for (int i = 0; i < 5; ++i) {
    client.push(table, Keys::range(0, 320), ones).wait();
  }
  std::vector<float> values(320);
  client.pull(table, Keys::range(0, 320), values).wait();
  EXPECT_EQ(values, std::vector<float>(320, 5.0F));

  const ClusterStatus status = client.status();
  EXPECT_EQ(status.servers.size(), 6U);
  EXPECT_EQ(
      std::ranges::count_if(status.servers,
                            [](const auto& text) { return text.starts_with("server 1.2 at "); }),
      1);
  for (const ShardPlace& place : status.shards) {
    ASSERT_EQ(place.chain.size(), 2U);
    EXPECT_NE(place.chain[0].server, place.chain[1].server);
  }
  for (const NodeMetrics& node : client.metrics({60})) {
    ASSERT_TRUE(node.is_up) << node.node;
    const auto has_pushes = [](const MetricSample& sample) {
      return sample.family == "messages_received" &&
             (sample.label == "push" || sample.label == "forward") && sample.value > 0;
    };
    EXPECT_EQ(std::ranges::any_of(node.samples, has_pushes), node.node != "coordinator")
        << node.node;
  }
  EXPECT_EQ(client.traffic().size(), 2U) << "by server";
}

TEST(ParameterServer, GivesReactorsConsecutivePorts) {
  const ParameterCoordinator coordinator({.secret = kTestSecret});
  ParameterServerOptions options{
      .reactors = 3, .coordinator = coordinator.address(), .secret = kTestSecret};
  for (int attempt = 0; attempt < 20; ++attempt) {  // the next ports may be in use
    const comm::Address first = comm::listen_on().address;
    options.listen = comm::to_text(first);
    try {
      const ParameterServer server(options);
      ASSERT_EQ(server.addresses().size(), 3U);
      for (std::uint16_t i = 0; i < 3; ++i) {
        EXPECT_EQ(server.addresses()[i],
                  comm::to_text({first.host, static_cast<std::uint16_t>(first.port + i)}));
      }
      return;
    } catch (const comm::AddressInUse&) {
    }
  }
  FAIL() << "found no three free ports";
}

TEST(ParameterServer, RejectsImpossibleReactors) {
  const auto refuse = [](const ParameterServerOptions& options, std::string_view words) {
    expect_error(ErrorKind::Usage, words, [&] { const ParameterServer server(options); });
  };
  ParameterServerOptions options{.coordinator = "127.0.0.1:1", .secret = kTestSecret};
  options.reactors = 0;
  refuse(options, "0 reactors are out of range: use 1 to 1024");
  options.reactors = 3;
  options.listen = "127.0.0.1:65534";
  refuse(options, "65535 is the last");
}

class Reactors : public testing::TestWithParam<std::size_t> {};

TEST_P(Reactors, LoseNothingWhenTheirServerRestarts) {
  TestCluster cluster({.servers = 3, .reactors = GetParam(), .replicas = 2, .shards = 6});
  constexpr int kWorkers = 3;
  constexpr Key kKeys = 12;
  std::atomic<bool> stop = false;
  std::vector<int> pushed(kWorkers);
  std::vector<std::thread> workers;
  ParameterClient observer(cluster.client_options());
  const TableHandle table = observer.create_table({.name = "c", .keys = kKeys, .width = kWorkers});
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      ParameterClient client(cluster.client_options());
      const TableHandle own = client.create_table({.name = "c", .keys = kKeys, .width = kWorkers});
      std::vector<float> one(kKeys * kWorkers);
      for (Key k = 0; k < kKeys; ++k) {
        one[k * kWorkers + static_cast<Key>(w)] = 1;
      }
      while (!stop) {
        client.push(own, Keys::range(0, kKeys), one).wait();
        ++pushed[static_cast<std::size_t>(w)];
      }
    });
  }
  for (std::size_t server = 0; server < 3; ++server) {
    wait_until_healthy(observer);
    cluster.stop(server);
    // Two failures within a lease would be two at a time.
    std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * kTestLease.count));
    cluster.start(server);
  }
  wait_until_healthy(observer);
  stop = true;
  for (std::thread& worker : workers) {
    worker.join();
  }
  std::vector<float> counts(kKeys * kWorkers);
  observer.pull(table, Keys::range(0, kKeys), counts).wait();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(static_cast<int>(counts[i]), pushed[i % kWorkers]) << "key " << i / kWorkers;
    EXPECT_GT(counts[i], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(OneAndTwo, Reactors, testing::Values(1, 2));

TEST(ParameterServer, BspEqualsSerialSgd) {
  // Minimizes (w - 3)^2 / 2 with the gradients of 4 workers; halves are exact, so the order of the sums does not matter.
  TestCluster cluster({.servers = 2, .replicas = 2, .shards = 2});
  constexpr int kWorkers = 4;
  constexpr int kSteps = 12;
  const TableSpec spec{.name = "w",
                       .keys = 1,
                       .width = 1,
                       .update = "sgd",
                       .parameters = {0.125F},
                       .consistency = Consistency::Bsp};
  std::vector<float> seen(kWorkers * kSteps);
  std::vector<std::thread> workers;
  std::atomic<int> joined = 0;
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      ParameterClient client(cluster.client_options());
      const TableHandle table = client.create_table(spec);
      client.start_iteration(table);
      ++joined;
      while (joined < kWorkers) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      for (int step = 0; step < kSteps; ++step) {
        client.start_iteration(table);
        std::vector<float> value(1);
        client.pull(table, Keys::range(0, 1), value).wait();
        // All read before any pushes: a second barrier, as BSP separates its phases.
        client.complete_iteration(table);
        client.start_iteration(table);
        const int place = w * kSteps + step;
        seen[static_cast<std::size_t>(place)] = value[0];
        const std::vector<float> gradient{value[0] - 3};
        client.push(table, Keys::range(0, 1), gradient).wait();
        client.complete_iteration(table);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  float w = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kWorkers; ++i) {
      EXPECT_EQ(seen[static_cast<std::size_t>(i * kSteps + step)], w) << step;
    }
    const float gradient = w - 3;
    for (int i = 0; i < kWorkers; ++i) {
      w -= 0.125F * gradient;
    }
  }
}

TEST(ParameterServer, AppliesUserDefinedUpdate) {
  class Sign final : public UpdateRule {
   public:
    [[nodiscard]] std::size_t state_per_key(std::size_t) const override { return 0; }
    void apply(const UpdateRun& run) const override {
      for (std::size_t i = 0; i < run.values.size(); ++i) {
        run.values[i] -= std::copysign(1.0F, run.gradient[i]);
      }
    }
  };
  auto updates = std::make_shared<UpdateRegistry>();
  updates->add("sign", [](std::span<const float>) { return std::make_unique<Sign>(); });
  TestCluster cluster({.servers = 1, .updates = updates});
  ParameterClient client(cluster.client_options());
  const TableHandle table =
      client.create_table({.name = "w", .keys = 1, .width = 2, .update = "sign"});
  const std::vector<float> gradient{-7, 0.5};
  std::vector<float> values(2);
  client.push_pull(table, Keys::range(0, 1), gradient, values).wait();
  EXPECT_EQ(values, (std::vector<float>{1, -1}));
}

TEST(ParameterServer, OnlyTouchedKeysTravel) {
  const TestCluster cluster({.servers = 2, .lease = kQuietLease});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table(
      {.name = "w", .keys = 1'000'000, .width = 4, .layout = TableLayout::Sparse});
  const std::vector<Key> touched{3, 250'001, 999'999};
  const std::vector<float> gradient(12, 1.0F);
  std::vector<float> values(12);
  client.push_pull(table, Keys::list(touched), gradient, values).wait();  // connects
  const auto total = [&] {
    ServerTraffic sum;
    for (const auto& [server, traffic] : settled_traffic(client)) {
      sum.sent += traffic.sent;
      sum.received += traffic.received;
    }
    return sum;
  };
  const ServerTraffic before = total();
  client.push(table, Keys::list(touched), gradient).wait();
  const ServerTraffic pushed = total();
  EXPECT_EQ(pushed.sent - before.sent, 12 * sizeof(float));
  EXPECT_EQ(pushed.received, before.received);
  client.pull(table, Keys::list(touched), values).wait();
  EXPECT_EQ(total().sent, pushed.sent);
  EXPECT_EQ(total().received - pushed.received, 12 * sizeof(float));
  EXPECT_EQ(values, std::vector<float>(12, 2.0F));
}

TEST(ParameterServer, RejectsInvalidRequests) {
  TestCluster cluster({.servers = 1});
  ParameterClient client(cluster.client_options());
  const TableHandle table = client.create_table({.name = "w", .keys = 10, .width = 2});
  std::vector<float> floats(4);
  const std::vector<Key> descending{3, 2};
  EXPECT_THROW(client.push(table, Keys::range(9, 11), floats).wait(), Error);
  EXPECT_THROW(client.push(table, Keys::range(0, 1), floats).wait(), Error);
  EXPECT_THROW(client.push(table, Keys::list(descending), floats).wait(), Error);
  EXPECT_THROW((void)client.create_table({.name = "w", .keys = 11, .width = 2}), Error);
}

TEST(ParameterServer, NamesUnresponsiveCoordinator) {
  expect_error(ErrorKind::Peer, "127.0.0.1:1", [] {
    const ParameterClient client(
        {.coordinator = "127.0.0.1:1", .secret = kTestSecret, .patience = {0.3}});
  });
}

}  // namespace
}  // namespace trireme::ps
