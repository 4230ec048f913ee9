// Benchmarks of collectives between ranks on this host: the plan (BenchPlan), the measurement (run_bench), the results
// next to predictions (BenchReport), and the Tuning derived from them.
//
// Plain values; all functions may be called from any thread. run_bench() forks, so call it before creating any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/comm_call.h"
#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/tuning.h"
#include "trireme/units.h"

namespace trireme::measure {

// The plan.

/// At most this many ranks, so that sums of the data stay exact in every dtype.
inline constexpr Rank kMaxBenchRanks = 64;

/// One row: an operation on a vector of one size, with one method.
struct BenchCase {
  Operation operation = Operation::Allreduce;
  Bytes bytes{};  ///< of the vector, as requested
  /// Elements of the vector; at least one per rank for operations with a block per rank.
  std::int64_t count = 0;
  Method method{};
};

struct BenchPlan {
  Rank ranks = 2;
  TransportKind transport = TransportKind::SharedMemory;
  bool encrypt = false;  ///< only over TCP
  DType dtype = DType::F32;
  BufferKind buffers = BufferKind::Private;
  int repeats = 0;  ///< of each case; 0: chosen by the duration of a call
  /// Cases with the same operation and size are adjacent, and their runs are interleaved.
  std::vector<BenchCase> cases{};
  std::optional<HostCosts> costs{};  ///< for the library's choice and for predictions
  Tuning tuning{};                   ///< overrides that choice
};

/// Selects every operation with every size and every method that supports it.
struct BenchSelection {
  std::vector<Operation> operations{};
  std::vector<Bytes> sizes{};
  std::optional<std::vector<Method>> methods{};  ///< absent: all
};

/// Adds the cases of the selection; a barrier has one size, 0. Throws Error(Usage) for a size that is
/// not a multiple of the element size.
void add_cases(BenchPlan& plan, const BenchSelection& selection);

/// Calls `visit(first, last)` for the cases of each operation and size, by index.
void for_each_cell(std::span<const BenchCase> cases,
                   const std::function<void(std::size_t first, std::size_t last)>& visit);

/// Whether the ranks share memory.
[[nodiscard]] bool shares_memory(const BenchPlan& plan);
/// Whether the vector of this operation consists of one block per rank.
[[nodiscard]] bool has_block_per_rank(Operation operation);

// Measuring.

/// Median and spread of isolated calls.
struct BenchTimes {
  Seconds median{};
  Seconds least{};
  double spread = 0;  ///< from the 10th to the 90th percentile, as a share of the median
  int calls = 0;
};

struct BenchResult {
  BenchTimes times{};
  bool correct = false;
  std::string chosen{};  ///< the method that ran
};

/// Called by rank 0, which may be another process, before each operation and size.
using BenchProgress = std::function<void(std::size_t case_index, const BenchCase& next)>;

/// The results, in the order of the cases. Starts processes (or, in-process, threads); all have ended when it returns.
/// Throws Error if a rank failed.
[[nodiscard]] std::vector<BenchResult> run_bench(const BenchPlan& plan,
                                                 const BenchProgress& progress);

// Results.

/// One case, measured.
struct BenchRow {
  BenchCase what{};
  BenchResult result{};
  std::optional<Seconds> predicted{};  ///< absent: the host has not been probed
  std::optional<Seconds> floor{};      ///< least time for the bytes that must move
  bool best = false;                   ///< the fastest correct method for its operation and size
};

struct BenchReport {
  BenchPlan plan{};
  std::vector<BenchRow> rows{};
};

/// The results of all cases of the plan, with predictions where the plan has costs, and the best row
/// of each operation and size marked.
[[nodiscard]] BenchReport make_bench_report(BenchPlan plan, std::vector<BenchResult> results);

/// Vector bytes divided by time, in GB/s.
[[nodiscard]] double algorithm_bandwidth(const BenchRow& row);
/// The algorithm bandwidth times a factor that makes operations and rank counts comparable: the part of the vector that
/// a rank must send, 2(p-1)/p for an all-reduce.
[[nodiscard]] double bus_bandwidth(const BenchRow& row, Rank ranks);
/// The minimum time to move the bytes, as a share of the measured time.
[[nodiscard]] std::optional<double> floor_share(const BenchRow& row);

struct TuningOrigin {
  std::string machine;
  std::string date;
};
/// The measured best method of each operation and size, with the times of all candidates. Methods that are never chosen
/// automatically are not candidates.
[[nodiscard]] Tuning make_tuning(const BenchReport& report, const TuningOrigin& origin);

}  // namespace trireme::measure
