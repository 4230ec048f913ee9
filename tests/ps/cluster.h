// A parameter server cluster inside the test process, over TCP on loopback.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

inline constexpr const char* kTestSecret = "a secret for the tests";
/// Long, because test machines are loaded.
inline constexpr Seconds kTestLease{1.0};
/// So long that connected nodes send nothing twice.
inline constexpr Seconds kQuietLease{5.0};

class TestCluster {
 public:
  struct Options {
    std::size_t servers = 1;
    std::size_t reactors = 1;  ///< of each server
    std::size_t replicas = 1;
    std::uint32_t shards = 4;
    Encrypt encrypt = Encrypt::No;
    std::shared_ptr<const UpdateRegistry> updates{};
    Seconds lease = kTestLease;
  };
  explicit TestCluster(const Options& options)
      : options_(options),
        coordinator_({.secret = kTestSecret,
                      .encrypt = options.encrypt,
                      .lease = options.lease,
                      .shards = options.shards,
                      .replicas = options.replicas,
                      .min_servers = options.servers,
                      .updates = options.updates}) {
    servers_.resize(options.servers);
    for (std::size_t i = 0; i < options.servers; ++i) {
      start(i);
    }
  }

  void start(std::size_t i) {
    servers_[i] = std::make_unique<ParameterServer>(ParameterServerOptions{
        .number = i,
        .reactors = options_.reactors,
        .coordinator = coordinator_.address(),
        .secret = kTestSecret,
        .encrypt = options_.encrypt,
        .lease = options_.lease,
        .updates = options_.updates,
        .on_refused = [this](const std::string& why) {  // on the threads of all servers
          const MutexLock lock(refusing_);
          refusals.push_back(why);
        }});
  }
  void stop(std::size_t i) { servers_[i].reset(); }
  /// Stops it as SIGTERM does. Returns whether the others took its shards in time.
  [[nodiscard]] bool hand_over_and_stop(std::size_t i, Seconds patience) {
    const bool is_done = servers_[i]->hand_over(patience);
    stop(i);
    return is_done;
  }

  [[nodiscard]] ParameterClientOptions client_options() const {
    return {.coordinator = coordinator_.address(),
            .secret = kTestSecret,
            .encrypt = options_.encrypt,
            .lease = options_.lease,
            .patience = {60}};
  }
  [[nodiscard]] std::string coordinator_address() const { return coordinator_.address(); }
  [[nodiscard]] std::string server_address(std::size_t i) const { return servers_[i]->address(); }

  std::vector<std::string> refusals;  ///< read it after the servers have stopped

 private:
  Options options_;
  ParameterCoordinator coordinator_;
  Mutex refusing_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
};

/// What the client has exchanged, once nothing is under way: a request that was repeated while its connection was made may
/// be answered twice.
inline std::map<std::uint64_t, ServerTraffic> settled_traffic(const ParameterClient& client) {
  const auto total = [](const std::map<std::uint64_t, ServerTraffic>& traffic) {
    std::uint64_t sum = 0;
    for (const auto& [server, bytes] : traffic) {
      sum += bytes.sent + bytes.received;
    }
    return sum;
  };
  for (auto before = client.traffic();;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    auto now = client.traffic();
    if (total(now) == total(before)) {
      return now;
    }
    before = std::move(now);
  }
}

}  // namespace trireme::ps
