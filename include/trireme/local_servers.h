// LocalServers: a coordinator and parameter servers on this machine, for programs that need no servers elsewhere. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "trireme/units.h"

namespace trireme::ps {

struct LocalServersOptions {
  std::size_t servers = 1;
  std::size_t replicas = 1;
  Seconds lease{2};
  std::uint32_t shards = 16;
  enum class Run : std::uint8_t {
    Threads,
    Processes,  ///< forked from this one, which must have no other threads; they end with it
  } run = Run::Threads;
};
[[nodiscard]] std::string_view to_text(LocalServersOptions::Run run);

class LocalServers {
 public:
  /// They are listening when it returns. Throws Error(Usage) or Error(System).
  explicit LocalServers(const LocalServersOptions& options);
  /// Stops them; their values are lost.
  ~LocalServers();
  LocalServers(const LocalServers&) = delete;
  LocalServers& operator=(const LocalServers&) = delete;

  /// Where the coordinator listens.
  [[nodiscard]] const std::string& coordinator() const noexcept { return coordinator_; }
  /// Random, for this object's clients.
  [[nodiscard]] const std::string& secret() const noexcept { return secret_; }
  /// Of the servers, by number; empty if they are threads.
  [[nodiscard]] std::vector<pid_t> processes() const;

 private:
  class Node;
  std::string secret_;
  std::string coordinator_;
  std::vector<std::unique_ptr<Node>> nodes_;  ///< the coordinator first
};

}  // namespace trireme::ps
