// Nodes that do not fit into the cluster are refused with the reason, and the cluster says what it cannot recover from.
#include <algorithm>
#include <chrono>
#include <thread>
#include <variant>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "comm/net/deadline.h"
#include "expect_error.h"
#include "ps/cluster.h"
#include "ps/protocol/coordinator.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

/// Collects what a server's threads report.
class Reports {
 public:
  void add(const std::string& what) {
    const MutexLock lock(mutex_);
    text_ += what;
    changed_.notify_all();
  }
  /// The first one; waits for it.
  [[nodiscard]] std::string wait() {
    const comm::Deadline deadline = comm::deadline_in({60});
    const MutexLock lock(mutex_);
    while (text_.empty() && !comm::passed(deadline)) {
      changed_.wait_until(mutex_, deadline);
    }
    return text_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::string text_ TRIREME_GUARDED_BY(mutex_);
};

std::string why_it_stops(ParameterServerOptions options) {
  Reports reports;
  options.on_stopped = [&](const std::string& why) { reports.add(why); };
  const ParameterServer server(std::move(options));
  return reports.wait();
}

void expect_works(ParameterClient& client) {
  const TableHandle table = client.create_table({.name = "w", .keys = 8});
  std::vector<float> values(8);
  client.push_pull(table, Keys::range(0, 8), std::vector<float>(8, 1.0F), values).wait();
  client.pull(table, Keys::range(0, 8), values).wait();
}

TEST(Join, RejectsSecondServerWithSameNumber) {
  TestCluster cluster({.servers = 2, .replicas = 2});
  ParameterClient client(cluster.client_options());
  expect_works(client);
  const std::string why = why_it_stops({.number = 1,
                                        .coordinator = cluster.coordinator_address(),
                                        .secret = kTestSecret,
                                        .lease = kTestLease});
  EXPECT_EQ(why, "server 1 is already running at " + cluster.server_address(1) +
                     ": give each server its own --number");
  expect_works(client);
  for (int i = 0; i < 600 && !client.status().is_healthy; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(client.status().is_healthy);
}

TEST(Join, RejectsServerWithDifferentLease) {
  TestCluster cluster({.servers = 1});
  const std::string why = why_it_stops({.number = 1,
                                        .coordinator = cluster.coordinator_address(),
                                        .secret = kTestSecret,
                                        .lease = {0.25}});
  EXPECT_EQ(why,
            "server 1 has a lease of 250 ms, the coordinator of 1 s: use the same --lease on all "
            "nodes");
}

TEST(Join, WorkerWithDifferentLeaseMayReadButNotJoinClocks) {
  TestCluster cluster({.servers = 1});
  ParameterClientOptions options = cluster.client_options();
  options.lease = {0.25};
  ParameterClient client(options);
  expect_works(client);
  const TableHandle table =
      client.create_table({.name = "clocked", .keys = 1, .consistency = Consistency::Bsp});
  expect_error(ErrorKind::Usage, "this worker has a lease of 250 ms, the coordinator of 1 s",
               [&] { client.start_iteration(table); });
}

TEST(Join, ReportsSecretOrEncryptionMismatchImmediately) {
  const TestCluster cluster({.servers = 1});
  ParameterClientOptions options = cluster.client_options();
  options.patience = {3600};  // the test would not end
  options.secret = "another secret of someone";
  expect_error(ErrorKind::Peer, "has another secret than this side",
               [&] { const ParameterClient client(options); });
  options.secret = kTestSecret;
  options.encrypt = Encrypt::Yes;
  expect_error(ErrorKind::Peer, "use --encrypt on all nodes or on none",
               [&] { const ParameterClient client(options); });
  options.encryption_advice = "set tls = false";
  expect_error(ErrorKind::Peer, "this side does; set tls = false",
               [&] { const ParameterClient client(options); });
  EXPECT_NE(why_it_stops({.number = 1,
                          .coordinator = cluster.coordinator_address(),
                          .secret = "another secret of someone",
                          .lease = kTestLease})
                .find("has another secret than this side"),
            std::string::npos);
}

TEST(Join, ClientReportsMissingServers) {
  const ParameterCoordinator coordinator(
      {.secret = kTestSecret, .lease = kTestLease, .min_servers = 2});
  const ParameterServer server({.number = 0,
                                .coordinator = coordinator.address(),
                                .secret = kTestSecret,
                                .lease = kTestLease});
  expect_error(ErrorKind::Peer, "it waits for more servers", [&] {
    const ParameterClient client({.coordinator = coordinator.address(),
                                  .secret = kTestSecret,
                                  .lease = kTestLease,
                                  .patience = {1.5}});
  });
}

TEST(Status, NamesShardWithoutLiveReplica) {
  TestCluster cluster({.servers = 1, .shards = 2});
  ParameterClient client(cluster.client_options());
  expect_works(client);
  const auto problem_with = [&](const std::string& words) {
    for (int i = 0; i < 600; ++i) {
      const std::vector<std::string> problems = client.status().problems;
      if (problems.size() == 2 && problems[0].find(words) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  };
  cluster.stop(0);
  EXPECT_TRUE(problem_with("shard 0 has no live replica: it waits for server 0; resume it"));
  cluster.start(0);
  EXPECT_TRUE(problem_with("server 0 crashed and came back without its values; restore"));
}

/// The lives of one server as the coordinator sees them.
class Lives {
 public:
  void beat(Incarnation incarnation) {
    coordinator_.handle(
        {server_node(0), NodeId::Coordinator,
         ServerBeat{
             .incarnation = incarnation, .sent = now_, .address = "127.0.0.1:1", .shards = {}}},
        now_, out_);
  }
  void pass(Micros time) {
    now_ += time;
    coordinator_.tick(now_, out_);
  }
  [[nodiscard]] bool has_refused() const {
    return std::ranges::any_of(out_, [](const Envelope& envelope) {
      return std::holds_alternative<Refusal>(envelope.message);
    });
  }
  [[nodiscard]] bool is_healthy() const { return coordinator_.is_healthy(); }

 private:
  UpdateRegistry updates_;
  Micros now_ = 0;
  Outbox out_;
  Coordinator coordinator_{{.shards = 1, .replicas = 1}, updates_, 0};
};

TEST(Coordinator, AcceptsRestartedServer) {
  Lives server;
  server.beat(1);
  server.pass(Timing{}.heartbeat);
  EXPECT_TRUE(server.is_healthy());
  for (int i = 0; i < 40; ++i) {
    server.beat(2);
    server.pass(Timing{}.heartbeat);
  }
  EXPECT_FALSE(server.has_refused());
}

TEST(Coordinator, RejectsServerWhoseNumberIsTaken) {
  Lives servers;
  for (int i = 0; i < 40; ++i) {
    servers.beat(1);
    if (i > 0) {
      servers.beat(2);
      EXPECT_FALSE(servers.is_healthy());
    }
    servers.pass(Timing{}.heartbeat);
    const Micros known = i * Timing{}.heartbeat;  // since when there are two
    if (known <= 2 * (Timing{}.lease + Timing{}.lease_margin)) {
      EXPECT_FALSE(servers.has_refused()) << "the first one may have died just now";
    }
  }
  EXPECT_TRUE(servers.has_refused());
  for (int i = 0; i < 10; ++i) {  // the second one has stopped
    servers.beat(1);
    servers.pass(Timing{}.heartbeat);
  }
  EXPECT_TRUE(servers.is_healthy());
}

/// The slowest worker's clock after the others continued for a while and it was silent.
TEST(Coordinator, WorkerWithExpiredLeaseLeavesMinimumClock) {
  const UpdateRegistry updates;
  Outbox out;
  Coordinator coordinator({.shards = 1, .replicas = 1}, updates, 0);
  const NodeId slow = worker_node(1);
  const NodeId fast = worker_node(2);
  const auto beat = [&](NodeId worker, ClockCount clock, Micros now) {
    coordinator.handle(
        {worker, NodeId::Coordinator, WorkerBeat{.sent = now, .clocks = {{TableId{0}, clock}}}},
        now, out);
  };
  coordinator.handle(
      {slow, NodeId::Coordinator,
       CreateTable{{.name = "w", .keys = 1, .consistency = Consistency::Ssp, .staleness = 3}}},
      0, out);
  beat(slow, 0, 0);
  beat(fast, 0, 0);
  constexpr Timing kTiming{};
  Micros now = 0;
  for (ClockCount clock = 1; clock <= 3; ++clock) {
    beat(fast, clock, now += kTiming.heartbeat);
    coordinator.tick(now, out);
  }
  EXPECT_EQ(coordinator.slowest(TableId{0}), 0);
  const Micros end = kTiming.lease + kTiming.lease_margin;  // of the slow one's lease
  while (now + kTiming.heartbeat < end) {
    beat(fast, 4, now += kTiming.heartbeat);
    coordinator.tick(now, out);
    EXPECT_EQ(coordinator.slowest(TableId{0}), 0) << "at " << now;
  }
  out.clear();
  beat(fast, 4, now += kTiming.heartbeat);
  coordinator.tick(now, out);
  EXPECT_EQ(coordinator.slowest(TableId{0}), 4);
  const bool is_announced = std::ranges::any_of(out, [&](const Envelope& envelope) {
    const auto* news = std::get_if<SlowestClocks>(&envelope.message);
    return envelope.to == fast && news != nullptr && !news->slowest.empty() &&
           news->slowest[0].clock == 4;
  });
  EXPECT_TRUE(is_announced);
  beat(slow, 1, now);
  EXPECT_EQ(coordinator.joined_at(TableId{0}, slow), 4) << "it returns at the slowest one's clock";
}

}  // namespace
}  // namespace trireme::ps
