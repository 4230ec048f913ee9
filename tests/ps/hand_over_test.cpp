// A server that is told to stop hands its shards over first.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ps/cluster.h"

namespace trireme::ps {
namespace {

/// So long that who waits for its end waits longer than the client.
constexpr Seconds kEndlessLease{600};
constexpr Seconds kPatience{30};

/// Pushes ones to every key, one push after the other, until told to stop. The counts show every push once.
class Counter {
 public:
  explicit Counter(const ParameterClientOptions& options)
      : client_(options), table_(client_.create_table({.name = "counts", .keys = kKeys})) {}

  void push_until(const std::atomic<bool>& stop) {
    for (const std::vector<float> ones(kKeys, 1); !stop; ++pushes_) {
      client_.push(table_, Keys::range(0, kKeys), ones).wait();
    }
  }
  void expect_exact() {
    std::vector<float> counts(kKeys);
    client_.pull(table_, Keys::range(0, kKeys), counts).wait();
    EXPECT_EQ(counts, std::vector<float>(kKeys, static_cast<float>(pushes_)));
    EXPECT_GT(pushes_, 0);
  }
  [[nodiscard]] ClusterStatus status() { return client_.status(); }

 private:
  static constexpr Key kKeys = 8;
  ParameterClient client_;
  TableHandle table_;
  int pushes_ = 0;
};

bool has_shards(const ClusterStatus& status, std::uint64_t server) {
  return std::ranges::any_of(status.shards, [&](const ShardPlace& place) {
    return std::ranges::find(place.chain, server, &ServerReactor::server) != place.chain.end();
  });
}

/// What the status says of a server; empty if it does not list it.
std::string line_of(const ClusterStatus& status, std::uint64_t server) {
  const std::string begin = fmt::format("server {} at ", server);
  const auto at = std::ranges::find_if(
      status.servers, [&](const std::string& line) { return line.starts_with(begin); });
  return at == status.servers.end() ? "" : *at;
}

/// Restarts each server in turn, while a worker pushes.
void restart_all(const TestCluster::Options& options) {
  TestCluster cluster(options);
  ParameterClientOptions client = cluster.client_options();
  client.patience = kPatience;
  Counter counter(client);
  std::atomic<bool> stop = false;
  auto pushing = std::async(std::launch::async, [&] { counter.push_until(stop); });
  for (std::size_t i = 0; i < options.servers; ++i) {
    EXPECT_TRUE(cluster.hand_over_and_stop(i, kPatience));
    EXPECT_FALSE(has_shards(counter.status(), i));
    cluster.start(i);
    while (!counter.status().is_healthy || !has_shards(counter.status(), i)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  stop = true;
  pushing.get();
  counter.expect_exact();
}

TEST(HandOver, RestartsServersWithoutWaitingForLease) {
  restart_all({.servers = 3, .replicas = 2, .lease = kEndlessLease});
}

TEST(HandOver, LeavesOneOfTwoReplicas) {
  restart_all({.servers = 2, .replicas = 2, .lease = kEndlessLease});
}

TEST(HandOver, MovesOnlyReplica) {
  restart_all({.servers = 2, .reactors = 2, .replicas = 1, .lease = kEndlessLease});
}

TEST(HandOver, DoesNotWaitIfAllServersStop) {
  TestCluster cluster({.servers = 1, .lease = kEndlessLease});
  Counter counter(cluster.client_options());
  EXPECT_TRUE(cluster.hand_over_and_stop(0, kPatience));
}

TEST(HandOver, IsReportedUntilLeaseEnds) {
  TestCluster cluster({.servers = 2, .replicas = 1, .lease = kTestLease});
  Counter counter(cluster.client_options());
  EXPECT_FALSE(line_of(counter.status(), 1).ends_with(", has left"));
  ASSERT_TRUE(cluster.hand_over_and_stop(1, kPatience));
  for (std::string line = line_of(counter.status(), 1); !line.empty();
       line = line_of(counter.status(), 1)) {
    ASSERT_TRUE(line.ends_with(", has left")) << line;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(counter.status().servers.size(), 1U);
}

TEST(HandOver, WaitsForServerThatIsDown) {
  TestCluster cluster({.servers = 2, .replicas = 1, .lease = kTestLease});
  Counter counter(cluster.client_options());
  cluster.stop(1);
  while (counter.status().is_healthy) {  // its lease has ended
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(line_of(counter.status(), 1).ends_with(", is silent"));
  EXPECT_FALSE(cluster.hand_over_and_stop(0, {0.1})) << "nobody has its shards";
}

}  // namespace
}  // namespace trireme::ps
