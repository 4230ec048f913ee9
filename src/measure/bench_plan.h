// What a benchmark measures, as a list of cases. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/tuning.h"
#include "trireme/units.h"

namespace trireme::measure {

/// At most this many ranks, so that sums of the data stay exact in every dtype.
inline constexpr Rank kMostBenchRanks = 64;

/// One row: an operation on a vector of a size, with one method.
struct BenchCase {
  Operation operation = Operation::Allreduce;
  Bytes bytes{};           ///< of the vector, as requested
  std::int64_t count = 0;  ///< its elements; at least one per rank if each rank has a block
  Method method{};
};

struct BenchPlan {
  Rank ranks = 2;
  TransportKind transport = TransportKind::SharedMemory;
  bool encrypt = false;  ///< only over TCP
  DType dtype = DType::F32;
  BufferKind buffers = BufferKind::Own;
  int repeats = 0;  ///< of each case; 0: chosen by the duration of a call
  /// Those of one operation and size are adjacent, and their runs are interleaved.
  std::vector<BenchCase> cases{};
  std::optional<HostCosts> costs{};  ///< for the library's choice and for predictions
  Tuning tuning{};                   ///< overrides that choice
};

/// What to measure: every operation with every size, with every method that supports it.
struct BenchSelection {
  std::vector<Operation> operations{};
  std::vector<Bytes> sizes{};
  std::optional<std::vector<Method>> methods{};  ///< nothing: all
};

/// Adds the cases of the selection; a barrier has one size, 0. Throws Error(Usage) for a size that is
/// not a multiple of the element size.
void add_cases(BenchPlan& plan, const BenchSelection& selection);

/// Calls `visit(first, last)` for the cases of each operation and size, by index.
void for_each_cell(std::span<const BenchCase> cases,
                   const std::function<void(std::size_t first, std::size_t last)>& visit);

/// Whether its ranks share memory.
[[nodiscard]] bool sees_memory(const BenchPlan& plan);
/// Whether the vector of this operation consists of one block per rank.
[[nodiscard]] bool has_block_per_rank(Operation operation);

}  // namespace trireme::measure
