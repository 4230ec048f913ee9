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

/// What to measure: every operation with every size, by every method that it has.
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

/// Whether its ranks see one another's memory.
[[nodiscard]] bool sees_memory(const BenchPlan& plan);
/// Whether the vector of this operation is cut into a block for each rank.
[[nodiscard]] bool is_cut(Operation operation);

}  // namespace trireme::measure
