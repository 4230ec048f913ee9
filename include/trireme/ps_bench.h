// How fast the parameter server is, over TCP and through shared memory, next to what the machine allows: bare loops over
// both that receive the same bytes, add the vector and send it back (the floors), Redis, and memcpy. All take turns in
// slices of a few milliseconds, so that what else the machine does hits all alike, and rates are medians over batches of a
// few operations. One run at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/units.h"

namespace trireme::ps {

struct PsBenchOptions {
  std::vector<Bytes> sizes{
      {4}, {4096}, {65536}, {1 << 20}, {16 << 20}};  ///< of the vector of a key
  std::size_t depth = 8;  ///< operations in flight, besides one at a time
  Seconds time{0.5};      ///< for each contender, size and depth
  Seconds slice{0.01};
  std::string redis{};  ///< the program of the Redis server; empty: without it
};

/// Of single operations, one at a time, each measured.
struct PsBenchLatency {
  Seconds p50{};
  Seconds p99{};
  Seconds echo_p50{};  ///< of a bare echo
};

/// Commands per second, of values of the same size.
struct RedisRates {
  double mixed = 0;  ///< SET and GET in turn
  double set = 0;
  double get = 0;
};

/// One worker and one server, over TCP unless it says otherwise.
struct PsBenchRow {
  Bytes size{};
  std::size_t depth = 1;
  double floor_per_second = 0;         ///< round trips of a bare loop that adds
  double echo_per_second = 0;          ///< round trips of one that does not
  double stream_bytes_per_second = 0;  ///< in one direction, a byte back for each vector
  double per_second = 0;               ///< push_pull of one vector
  double push_per_second = 0;
  double pull_per_second = 0;
  double floor_share = 0;                   ///< of push_pull
  double chain_share = 0;                   ///< with two replicas, of the rate with one
  double relay_per_second = 0;              ///< round trips of a bare loop through two threads
  double chain_relay_share = 0;             ///< with two replicas, of the bare loop's rate
  std::optional<PsBenchLatency> latency{};  ///< of push_pull, with depth 1
  std::optional<RedisRates> redis{};
  double shared_floor_per_second = 0;  ///< round trips through shared memory
  double shared_per_second = 0;        ///< operations through shared memory
  double shared_ratio = 0;             ///< of the operations over TCP
  double shared_cpu_seconds_per_gb = 0;
  double cpu_seconds_per_gb = 0;  ///< of worker and server, per 10^9 bytes in both directions
  double memcpy_bytes_per_second = 0;
};

/// push_pull as the two operations that it is, of Redis commands: SET and GET in turn.
[[nodiscard]] inline double redis_ratio(const PsBenchRow& row) {
  return 2 * row.per_second / row.redis->mixed;
}

/// Checks the values first. Throws Error(Usage) or Error(System).
[[nodiscard]] std::vector<PsBenchRow> run_ps_bench(const PsBenchOptions& options);

}  // namespace trireme::ps
