// A parameter server cluster of real processes, to be killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/net/socket.h"
#include "ps/cluster.h"
#include "ps/tools/child_process.h"
#include "trireme/ps_chaos.h"

namespace trireme::ps {

class ProcessCluster {
 public:
  struct Options {
    std::size_t servers = 3;
    std::size_t reactors = 1;  ///< of each server
    std::size_t replicas = 2;
    std::string snapshot{};  ///< the folder
    std::string restore{};
  };
  /// Starts them; does not wait until they have joined.
  ProcessCluster(std::string address, const Options& options)
      : address_(std::move(address)), options_(options) {
    start({"--role", "coordinator", "--listen", address_, "--shards", "6", "--replicas",
           fmt::format("{}", options.replicas), "--min-servers",
           fmt::format("{}", options.servers)});
    for (std::size_t i = 0; i < options.servers; ++i) {
      start({"--number", fmt::format("{}", i), "--reactors", fmt::format("{}", options.reactors),
             "--coordinator", address_});
    }
  }
  void kill_all() { processes_.clear(); }

  [[nodiscard]] static std::string free_address() {
    return comm::to_text(comm::listen_on().address);
  }
  [[nodiscard]] ParameterClientOptions client_options() const {
    return {.coordinator = address_, .secret = kTestSecret, .lease = kTestLease, .patience = {120}};
  }

 private:
  void start(std::vector<std::string> arguments) {
    std::vector<std::string> command{TRIREME_PROGRAM, "ps", "serve", "--lease",
                                     fmt::format("{}s", kTestLease.count)};
    if (!options_.snapshot.empty()) {
      arguments.insert(arguments.end(),
                       {"--snapshot", options_.snapshot, "--snapshot-every", "0.2s"});
    }
    if (!options_.restore.empty()) {
      arguments.insert(arguments.end(), {"--restore", options_.restore});
    }
    command.insert(command.end(), arguments.begin(), arguments.end());
    processes_.push_back(std::make_unique<ChildProcess>(
        command, fmt::format("{}={}", kSecretVariable, kTestSecret)));
  }

  std::string address_;
  Options options_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

}  // namespace trireme::ps
