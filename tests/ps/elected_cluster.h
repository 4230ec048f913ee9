// Candidates for the coordinator and servers, as processes whose membership is kept in a real etcd. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ps/cluster.h"
#include "ps/etcd_processes.h"
#include "ps/membership/leadership.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {

inline void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Candidates for the coordinator and three servers, with two replicas of each shard.
class ElectedCluster {
 public:
  static constexpr std::size_t kServers = 3;
  /// Starts something in the place of a candidate or server.
  using Start = EtcdProcesses::Start;
  struct Options {
    std::vector<std::string> candidates{};  ///< where they listen
    std::vector<std::string> server_hosts = {"127.0.0.1", "127.0.0.1", "127.0.0.1"};
    std::size_t reactors = 1;  ///< of each server
    Start start = [](std::size_t, const std::vector<std::string>& command) {
      return std::make_unique<ChildProcess>(command, secret());
    };
  };
  ElectedCluster(const EtcdProcesses& etcd, Options options)
      : etcd_(etcd),
        options_(std::move(options)),
        candidates_(options_.candidates.size()),
        servers_(kServers) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      start_candidate(i);
    }
    for (std::size_t i = 0; i < kServers; ++i) {
      start_server(i);
    }
  }
  [[nodiscard]] static std::string secret() {
    return fmt::format("{}={}", kSecretVariable, kTestSecret);
  }
  [[nodiscard]] static std::string free_address() {
    return comm::to_text(comm::listen_on().address);
  }

  void start_candidate(std::size_t i) {
    candidates_[i] = start(
        i, with_files({"--role", "coordinator", "--listen", options_.candidates[i], "--membership",
                       etcd_.url(), "--shards", "6", "--replicas", "2", "--min-servers", "3"}));
  }
  void start_server(std::size_t i) {
    servers_[i] =
        start(i, with_files({"--number", fmt::format("{}", i), "--reactors",
                             fmt::format("{}", options_.reactors), "--listen",
                             options_.server_hosts[i] + ":0", "--coordinator", etcd_.url()}));
  }
  [[nodiscard]] ChildProcess& candidate(std::size_t i) { return *candidates_[i]; }
  [[nodiscard]] ChildProcess& server(std::size_t i) { return *servers_[i]; }

  /// The candidate that is the coordinator, once it is not this one.
  [[nodiscard]] std::size_t active(std::optional<std::size_t> but_not = {}) const {
    Etcd etcd(etcd_.location());
    for (const comm::Deadline deadline = comm::deadline_in(kSoon); !comm::passed(deadline); nap()) {
      const EtcdRead leader = etcd.get(leader_key(etcd_.location()), deadline);
      for (std::size_t i = 0; leader.found && i < candidates_.size(); ++i) {
        if (leader_address(leader.found->value) == options_.candidates[i] && i != but_not) {
          return i;
        }
      }
    }
    throw std::runtime_error("nobody is the coordinator");
  }

  [[nodiscard]] ParameterClientOptions client_options() const {
    return {.coordinator = etcd_.url(),
            .etcd_tls = etcd_.client_files(),
            .secret = kTestSecret,
            .lease = kTestLease,
            .patience = kSoon};
  }
  /// Options of a command that reads the etcd.
  [[nodiscard]] std::vector<std::string> etcd_options() const {
    const TlsFiles& files = etcd_.client_files();
    std::vector<std::string> options;
    if (!files.ca.empty()) {
      options = {"--etcd-ca", files.ca, "--etcd-cert", files.certificate, "--etcd-key", files.key};
    }
    return options;
  }
  /// Until every shard has two replicas on this many servers.
  void wait_until_healthy() const {
    ParameterClient client(client_options());
    for (const comm::Deadline deadline = comm::deadline_in(kSoon); !comm::passed(deadline); nap()) {
      if (client.status().is_healthy) {
        return;
      }
    }
    ADD_FAILURE() << "the cluster has not recovered";
  }

 private:
  [[nodiscard]] std::vector<std::string> with_files(std::vector<std::string> arguments) const {
    const std::vector<std::string> options = etcd_options();
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }
  [[nodiscard]] std::unique_ptr<ChildProcess> start(
      std::size_t place, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command{TRIREME_PROGRAM, "ps", "serve", "--lease",
                                     fmt::format("{}s", kTestLease.count)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return options_.start(place, command);
  }

  const EtcdProcesses& etcd_;
  Options options_;
  std::vector<std::unique_ptr<ChildProcess>> candidates_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

}  // namespace trireme::ps
