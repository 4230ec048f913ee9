// Planner: searches the ways to parallelize the training of a transformer on a cluster for the one with the highest MFU
// that fits into memory, and says why the others lost.
//
// Pure; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cost.h"
#include "trireme/plan.h"

namespace trireme {

/// What is searched. An empty list means all values that fit; several values restrict the search to them.
struct SearchSpace {
  std::vector<int> data{};
  std::vector<int> tensor{};
  std::vector<int> pipe{};
  std::vector<int> context{};
  std::vector<int> expert{};
  std::vector<int> microbatch{};
  std::vector<int> chunks{};
  std::vector<int> zero{};
  std::vector<PipelineForm> schedules{};
  std::vector<RecomputeMode> recompute{};
  /// Usual: powers of two, tensor groups within a node. Wide: every divisor, tensor groups across nodes, all schedules.
  enum class Extent : std::uint8_t { Usual, Wide } extent = Extent::Usual;
};

struct SearchOptions {
  SearchSpace space{};
  /// Of a device, for everything; default: 92 % of its memory.
  std::optional<double> memory_bytes{};
  int keep = 10;  ///< how many layouts to return, each with another mesh
};

struct RankedLayout {
  ParallelLayout layout{};
  StepCost cost{};
  /// Why it is not the first: "bubble +12.1 %, tensor +3.0 %" of the first one's step time. Empty for the first.
  std::string why{};
};

struct PlanSearch {
  std::vector<RankedLayout> best{};  ///< fastest first; empty if nothing fits
  std::int64_t searched = 0;         ///< layouts costed
  std::int64_t too_large = 0;        ///< of these: not within memory
  double seconds = 0;                ///< that the search took
  double memory_limit = 0;           ///< bytes of a device
  /// If nothing fits: the layout that needs least memory, and what would make it fit.
  std::optional<RankedLayout> smallest{};
  std::string advice{};
};

/// Searches layouts that use all devices of the cluster. Throws Error(Usage) if the device's memory, its peak or its
/// bandwidth is unknown, or if no layout of the space is possible at all.
[[nodiscard]] PlanSearch search_plans(const TransformerCost& cost, const SearchOptions& options);

/// The plan that runs the layout. Throws Error(Usage) if its schedule or batch does not fit.
[[nodiscard]] Plan to_plan(const ParallelLayout& layout, const Workload& work);

}  // namespace trireme
