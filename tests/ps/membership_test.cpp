// Clusters whose membership is kept in a real etcd: candidates for the coordinator, servers and etcd's members are processes
// that are killed, paused and cut off, while workers count. What a worker counted must be there, once.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "comm/netns.h"
#include "expect_error.h"
#include "ps/elected_cluster.h"
#include "ps/test_certificates.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kKeysEach = 24;  ///< of each worker; on all shards

/// Threads that add one to each of their keys, again and again, and read what they have counted.
class CountingWorkers {
 public:
  CountingWorkers(ParameterClientOptions options, std::size_t workers)
      : options_(std::move(options)), counts_(workers) {
    for (std::size_t i = 0; i < workers; ++i) {
      threads_.emplace_back([this, i] { run(i); });
    }
  }
  ~CountingWorkers() { stop(); }
  CountingWorkers(const CountingWorkers&) = delete;
  CountingWorkers& operator=(const CountingWorkers&) = delete;

  /// Until every worker has pushed and read this many times from now on.
  void wait_for_rounds(std::uint64_t rounds) {
    const comm::Deadline deadline = comm::deadline_in(kSoon);
    std::vector<std::uint64_t> goals;
    for (const auto& count : counts_) {
      goals.push_back(count + rounds);
    }
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      while (counts_[i] < goals[i] && !comm::passed(deadline) && !has_failed_) {
        nap();
      }
      EXPECT_GE(counts_[i], goals[i]) << "worker " << i << " has stopped";
    }
  }

  /// All counters are exact.
  void finish() {
    stop();
    ASSERT_FALSE(has_failed_);
    ParameterClient client(options_);
    const TableHandle table = client.create_table(spec());
    std::vector<float> values(counts_.size() * kKeysEach);
    client.pull(table, Keys::range(0, values.size()), values).wait();
    for (std::size_t key = 0; key < values.size(); ++key) {
      EXPECT_EQ(values[key], static_cast<float>(counts_[key / kKeysEach])) << "key " << key;
    }
  }

 private:
  [[nodiscard]] TableSpec spec() const {
    return {.name = "counters", .keys = counts_.size() * kKeysEach};
  }
  void stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }
  void run(std::size_t worker) {
    try {
      ParameterClient client(options_);
      const TableHandle table = client.create_table(spec());
      const Keys keys = Keys::range(worker * kKeysEach, (worker + 1) * kKeysEach);
      const std::vector<float> ones(kKeysEach, 1.0F);
      std::vector<float> values(kKeysEach);
      while (!stopping_) {
        client.push(table, keys, ones).wait();
        ++counts_[worker];
        client.pull(table, keys, values).wait();
        EXPECT_EQ(values, std::vector<float>(kKeysEach, static_cast<float>(counts_[worker])));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } catch (const std::exception& error) {
      has_failed_ = true;
      ADD_FAILURE() << "worker " << worker << ": " << error.what();
    }
  }

  ParameterClientOptions options_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> has_failed_ = false;
  std::vector<std::thread> threads_;
};

class Membership : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_etcd().empty()) {
      GTEST_SKIP() << why_no_etcd();
    }
  }
  [[nodiscard]] static ElectedCluster::Options two_candidates() {
    return {.candidates = {ElectedCluster::free_address(), ElectedCluster::free_address()}};
  }
};

TEST_F(Membership, StandbyTakesOverWhenCoordinatorIsKilled) {
  EtcdProcesses etcd(1);
  etcd.wait_until_ready();
  ElectedCluster cluster(etcd, two_candidates());
  CountingWorkers workers(cluster.client_options(), 2);
  workers.wait_for_rounds(5);
  for (std::size_t round = 0; round < 2; ++round) {
    cluster.wait_until_healthy();
    const std::size_t killed = cluster.active();
    cluster.candidate(killed).kill();
    cluster.server(round).kill();  // only a coordinator can replace it
    EXPECT_NE(cluster.active(killed), killed);
    workers.wait_for_rounds(5);
    cluster.start_server(round);
    cluster.start_candidate(killed);
    workers.wait_for_rounds(5);
  }
  workers.finish();
}

TEST_F(Membership, WorksWithEncryptedEtcdAndTwoReactors) {
  const TestCertificates certificates;
  EtcdProcesses etcd(1, {.server = certificates.server(),
                         .client = certificates.client(),
                         .demands_certificates = true});
  etcd.wait_until_ready();
  ElectedCluster::Options options = two_candidates();
  options.reactors = 2;
  ElectedCluster cluster(etcd, options);
  CountingWorkers workers(cluster.client_options(), 2);
  workers.wait_for_rounds(5);
  cluster.wait_until_healthy();
  const std::size_t killed = cluster.active();
  cluster.candidate(killed).kill();
  cluster.server(0).kill();
  EXPECT_NE(cluster.active(killed), killed);
  workers.wait_for_rounds(5);
  cluster.start_server(0);
  workers.wait_for_rounds(5);
  workers.finish();

  // A worker with the CA of another etcd learns why it finds no coordinator.
  const TestCertificates others;
  ParameterClientOptions wrong = cluster.client_options();
  wrong.etcd_tls.ca = others.trust().ca;
  wrong.patience = {5};
  expect_error(ErrorKind::Peer, "pass the CA that signed it with --etcd-ca",
               [&] { const ParameterClient client(wrong); });
}

TEST_F(Membership, PausedCoordinatorStandsBy) {
  EtcdProcesses etcd(1);
  etcd.wait_until_ready();
  ElectedCluster cluster(etcd, two_candidates());
  CountingWorkers workers(cluster.client_options(), 2);
  workers.wait_for_rounds(5);
  cluster.wait_until_healthy();
  const std::size_t paused = cluster.active();
  cluster.candidate(paused).pause();
  const std::size_t successor = cluster.active(paused);
  cluster.server(0).kill();
  workers.wait_for_rounds(5);
  cluster.candidate(paused).resume();  // it still believes that server 0 is alive
  workers.wait_for_rounds(20);
  cluster.start_server(0);
  cluster.wait_until_healthy();
  cluster.candidate(successor).kill();
  EXPECT_EQ(cluster.active(successor), paused);
  cluster.server(1).kill();
  workers.wait_for_rounds(5);
  workers.finish();
}

TEST_F(Membership, SurvivesDeathOfEtcdLeader) {
  EtcdProcesses etcd(3);
  etcd.wait_until_ready();
  ElectedCluster cluster(etcd, two_candidates());
  CountingWorkers workers(cluster.client_options(), 2);
  workers.wait_for_rounds(5);
  cluster.wait_until_healthy();
  etcd.kill(etcd.leader());
  workers.wait_for_rounds(20);
  // What the coordinator stores from now on needs the new leader.
  ParameterClient client(cluster.client_options());
  (void)client.create_table({.name = "later", .keys = 10});
  cluster.server(2).kill();
  workers.wait_for_rounds(5);
  const std::size_t killed = cluster.active();
  cluster.candidate(killed).kill();
  EXPECT_NE(cluster.active(killed), killed);
  EXPECT_EQ(client.create_table({.name = "later", .keys = 10}).width, 1U);
  workers.wait_for_rounds(5);
  workers.finish();
}

class LongMembership : public Membership {};

TEST_F(LongMembership, ChaosLosesAndDuplicatesNothing) {
  EtcdProcesses etcd(1);
  etcd.wait_until_ready();
  const TemporaryFolder folder;
  std::size_t coordinators = 0;
  const ChaosResult result = run_chaos({.seed = 4,
                                        .kills = 15,
                                        .lease = {0.5},
                                        .membership = etcd.url(),
                                        .program = TRIREME_PROGRAM,
                                        .folder = folder.path(),
                                        .on_event = [&](const std::string& event) {
                                          coordinators +=
                                              event.starts_with("kill the coord") ? 1 : 0;
                                        }});
  EXPECT_GE(result.kills, 15U);
  EXPECT_GT(coordinators, 0U);
  EXPECT_GT(result.acknowledged, 0U);
  EXPECT_EQ(result.lost, 0U);
  EXPECT_EQ(result.doubled, 0U);
  EXPECT_EQ(result.violations, 0U);
}

/// Where the calling thread is, until the object ends: on this host.
class OnHost {
 public:
  OnHost(const test::Network& network, int host)
      : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    network.enter(host);
  }
  ~OnHost() { ::setns(home_.get(), CLONE_NEWNET); }
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;

 private:
  comm::Fd home_;
};

/// Three hosts with a member of etcd, a candidate and a server each; the workers are on a fourth one.
TEST_F(Membership, SurvivesPartitions) {
  if (!test::why_no_network().empty()) {
    GTEST_SKIP() << test::why_no_network();
  }
  constexpr int kWorkers = 3;
  const test::Network network({.hosts = kWorkers + 1});
  const auto start_with = [&](const std::string& variable) -> EtcdProcesses::Start {
    return [&network, variable](std::size_t host, const std::vector<std::string>& command) {
      const OnHost there(network, static_cast<int>(host));
      return std::make_unique<ChildProcess>(command, variable);
    };
  };
  std::vector<EtcdProcesses::Place> places;
  ElectedCluster::Options options{.server_hosts = {},
                                  .start = start_with(ElectedCluster::secret())};
  for (int host = 0; host < kWorkers; ++host) {
    const std::string address = test::Network::address(host);
    places.push_back({{address, 2379}, {address, 2380}});
    options.candidates.push_back(address + ":7000");
    options.server_hosts.push_back(address);
  }
  const OnHost here(network, kWorkers);
  EtcdProcesses etcd(places, start_with("GOMAXPROCS=2"));
  etcd.wait_until_ready();
  ElectedCluster cluster(etcd, options);
  CountingWorkers workers(cluster.client_options(), 2);
  workers.wait_for_rounds(5);

  cluster.wait_until_healthy();
  const std::size_t coordinator = cluster.active();
  network.unplug(static_cast<int>(coordinator));
  EXPECT_NE(cluster.active(coordinator), coordinator);
  workers.wait_for_rounds(5);
  network.plug_back(static_cast<int>(coordinator));
  workers.wait_for_rounds(20);

  cluster.wait_until_healthy();
  const int leader = static_cast<int>(etcd.leader());
  network.unplug(leader);
  workers.wait_for_rounds(5);
  network.plug_back(leader);
  cluster.wait_until_healthy();
  workers.finish();
}

}  // namespace
}  // namespace trireme::ps
