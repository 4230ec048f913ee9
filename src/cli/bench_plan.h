// What `trireme bench` is asked to measure, as a list of cases. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/tuning.h"
#include "trireme/units.h"

namespace trireme::cli {

/// Most ranks that a benchmark has: sums of its data stay exact in every dtype.
inline constexpr Rank kMostBenchRanks = 64;

/// One row: an operation on a vector of a size by one method.
struct BenchCase {
  Operation operation = Operation::Allreduce;
  Bytes bytes{};           ///< of the vector, as asked for
  std::int64_t count = 0;  ///< its elements; where it is cut, each rank has at least one
  Method method{};
};

struct BenchPlan {
  Rank ranks = 2;
  TransportKind transport = TransportKind::SharedMemory;
  bool encrypt = false;  ///< only over TCP
  DType dtype = DType::F32;
  BufferKind buffers = BufferKind::Own;
  int repeats = 0;  ///< of each case; 0: as many as are worth the time
  /// Those of one operation and size stand together, and are measured in turns.
  std::vector<BenchCase> cases{};
  std::optional<HostCosts> costs{};  ///< what the library chooses by, and is compared with
  Tuning tuning{};                   ///< what overrides that choice
};

/// What stands on the command line.
struct BenchWishes {
  std::string operations;
  std::string sizes;
  std::string algorithms;
};

/// Fills in the cases. Throws Error(Usage) that names the option.
void add_cases(BenchPlan& plan, const BenchWishes& wishes);

/// "8,1K,64K" and ranges "8..64M", in steps of four, or "8..64M:2" in steps of two. Rising, each size
/// once. Throws Error(Usage).
[[nodiscard]] std::vector<Bytes> parse_size_list(const std::string& text);

/// Whether its ranks see one another's memory.
[[nodiscard]] bool sees_memory(const BenchPlan& plan);
/// Whether the vector of this operation is cut into a block for each rank.
[[nodiscard]] bool is_cut(Operation operation);

}  // namespace trireme::cli
