// How fast the parameter server is, beside the floor that the machine sets: a bare TCP loop that receives the same bytes,
// adds the vector and sends it back. Both in one run, in turn. One run at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/units.h"

namespace trireme::ps {

struct PsBenchOptions {
  std::vector<Bytes> sizes{
      {4}, {4096}, {65536}, {1 << 20}, {16 << 20}};  ///< of the vector of a key
  std::size_t depth = 8;                             ///< operations in flight
  std::size_t replicas = 1;                          ///< and as many servers
  Seconds time{0.5};                                 ///< for each size and side
  int repetitions = 3;                               ///< of which the median counts
};

struct PsBenchRow {
  Bytes size{};
  double floor_per_second = 0;      ///< round trips of the bare loop
  double push_pull_per_second = 0;  ///< operations, one after the other
  double pipelined_floor_per_second = 0;
  double pipelined_per_second = 0;  ///< with `depth` of them in flight
};

/// Checks the values first. Throws Error(Usage) or Error(System).
[[nodiscard]] std::vector<PsBenchRow> run_ps_bench(const PsBenchOptions& options);

}  // namespace trireme::ps
