// Planner: searches the ways to parallelize the training of a transformer on a cluster for the one with the highest MFU
// that fits into memory, and says why the others are slower.
//
// Pure; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cost.h"
#include "trireme/energy.h"
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
  std::vector<Plan::Context> context_modes{};
  std::vector<Bytes> buckets{};
  /// Usual: powers of two, tensor groups within a node, equal stages, context parallelism from 8192 tokens on, ZeRO 3
  /// without stages, buckets left to the framework. Wide: every divisor, tensor groups across nodes, unequal stages,
  /// every schedule, bucket size, order of the axes and kind of context parallelism.
  enum class Extent : std::uint8_t { Usual, Wide } extent = Extent::Usual;
};
[[nodiscard]] std::string_view to_text(SearchSpace::Extent extent);

/// How the space is searched.
enum class SearchMethod : std::uint8_t {
  Exhaustive,  ///< all of it: finds the optimum
  Mcmc,        ///< a random walk (Metropolis), as in FlexFlow: a baseline
};

/// "exhaustive", "mcmc".
[[nodiscard]] std::string_view to_text(SearchMethod method);

/// The walk starts at a random layout. A move changes one decision, and others where they no longer fit; it is taken if it
/// is faster, or else with the probability exp(-slowdown / temperature). The walk starts again when it has not improved for
/// a tenth of its moves. The same seed gives the same answer.
struct McmcOptions {
  std::int64_t moves = 100000;
  std::uint64_t seed = 1;
  double temperature = 0.05;  ///< of the slowdown, as a share of the step time
};

struct SearchOptions {
  SearchSpace space{};
  /// Of a device, for everything; default: 92 % of its memory.
  std::optional<double> memory_bytes{};
  int keep = 10;  ///< how many layouts to return, each with another mesh
  SearchMethod method = SearchMethod::Exhaustive;
  McmcOptions mcmc{};
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const SearchOptions& options);

struct RankedLayout {
  ParallelLayout layout{};
  StepCost cost{};
  /// Why it is not the first: "bubble +12.1 %, tensor +3.0 %" of the first one's step time. Empty for the first.
  std::string why{};
  /// Blocks of each stage, if they are unequal because devices differ; else as deal_blocks() says.
  std::vector<int> stage_blocks{};
};

struct PlanSearch {
  std::vector<RankedLayout> best{};  ///< fastest first; empty if nothing fits
  SearchMethod method = SearchMethod::Exhaustive;
  std::int64_t searched = 0;   ///< layouts costed
  std::int64_t too_large = 0;  ///< of these: not within memory
  double seconds = 0;          ///< that the search took
  double memory_limit = 0;     ///< bytes of a device
  /// If nothing fits: the layout that needs least memory, the largest tensor of what takes most of it, and the cheapest
  /// change that makes the model fit.
  std::optional<RankedLayout> smallest{};
  std::string largest_tensor{};
  std::string advice{};
};

/// Searches layouts that use all devices of the cluster. Where devices differ, ranks of a layout wait for the weakest of
/// them; in addition, pipelines are tried whose stages have devices of one kind each and blocks in proportion. Throws Error(Usage) if the device's memory, its peak or its
/// bandwidth is unknown, or if no layout of the space is possible at all.
[[nodiscard]] PlanSearch search_plans(const TransformerCost& cost, const SearchOptions& options);

/// The plan that runs the layout of a model with this many blocks. Throws Error(Usage) if its schedule or batch does not
/// fit.
[[nodiscard]] Plan to_plan(const RankedLayout& layout, const Workload& work, int blocks);

/// What a time on a cluster takes, where the cluster knows: the devices at their full power, without hosts and cooling.
struct Bill {
  Seconds time{};
  std::optional<Energy> energy{};
  std::optional<double> dollars{};
};
[[nodiscard]] Bill bill_of(const Cluster& cluster, Seconds time);
/// Of all steps that train on this many tokens.
[[nodiscard]] Bill training_bill(const TransformerCost& cost, const StepCost& step, double tokens);

}  // namespace trireme
