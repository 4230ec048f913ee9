// How fast the parameter server is, over TCP and through shared memory, beside what the machine allows: bare loops over both
// that receive the same bytes, add the vector and send it back (the floors), Redis, and memcpy. All take turns in slices of a few milliseconds, so that what
// else the machine does hits all alike, and rates are medians over batches of a few operations. One run at a time.
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

/// `push_pull` of one vector by one worker to one server, over TCP unless it says otherwise.
struct PsBenchRow {
  Bytes size{};
  std::size_t depth = 1;
  double floor_per_second = 0;  ///< round trips
  double per_second = 0;        ///< operations
  double floor_share = 0;
  double chain_share = 0;                    ///< with two replicas, of the rate with one
  std::optional<double> redis_per_second{};  ///< mean of GET and SET of the same size
  /// Vectors moved by one Redis command: a push_pull moves two, one each way, a GET or SET one.
  std::optional<double> redis_ratio{};
  double shared_floor_per_second = 0;  ///< round trips through shared memory
  double shared_per_second = 0;        ///< operations through shared memory
  double shared_ratio = 0;             ///< of the operations over TCP
  double shared_cpu_seconds_per_gb = 0;
  double cpu_seconds_per_gb = 0;  ///< of worker and server, per 10^9 bytes in both directions
  double memcpy_bytes_per_second = 0;
};

/// Checks the values first. Throws Error(Usage) or Error(System).
[[nodiscard]] std::vector<PsBenchRow> run_ps_bench(const PsBenchOptions& options);

}  // namespace trireme::ps
