// ShardProbe: pushes to every shard at a steady pace and counts what is acknowledged, shard by shard, so that it shows which
// shards a failure slows down. Shards do not wait for each other here, as they do in a worker. One thread starts and stops
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "ps/protocol/ids.h"
#include "trireme/parameter_server.h"

namespace trireme::ps {

/// Pushes that were acknowledged, in windows of time.
struct ShardWindows {
  static constexpr Micros kWidth = 50'000;
  Micros begin = 0;
  std::vector<std::vector<std::uint32_t>> counts{};  ///< by shard and window

  /// Of one shard in the windows that lie between the two times.
  [[nodiscard]] double per_window(std::size_t shard, Micros from, Micros to) const;
};

class ShardProbe {
 public:
  ShardProbe(const ParameterClientOptions& options, std::size_t shards);
  ~ShardProbe() { stop(); }
  ShardProbe(const ShardProbe&) = delete;
  ShardProbe& operator=(const ShardProbe&) = delete;

  /// What it has counted. Throws what stopped it early.
  [[nodiscard]] ShardWindows finish();

 private:
  struct Lane {
    std::optional<PendingOperation> push;
    Micros begun = 0;
  };

  void stop();
  void run();
  void advance(std::size_t shard);
  void count(std::size_t shard, Micros end);

  ParameterClient client_;
  TableHandle table_;
  std::vector<Lane> lanes_;
  std::vector<float> one_{1.0F};
  ShardWindows windows_;
  std::atomic<bool> stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace trireme::ps
