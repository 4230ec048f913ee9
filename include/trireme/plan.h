// Plan: how a user wants a computation parallelized over a mesh of devices; and the resulting placement of each value
// of a graph. Plain data; any thread.
//
// Dimensions of values have names (batch, sequence, heads, hidden, experts, …); an axis of the mesh shards the
// dimensions listed in its row of Plan::sharding. The partitioner derives all other placements from those of
// parameters and inputs. A plan may also assign single ops to devices and place single values; see assignment.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/assignment.h"
#include "trireme/compression.h"
#include "trireme/dim_names.h"
#include "trireme/graph.h"
#include "trireme/mesh.h"
#include "trireme/pipeline.h"
#include "trireme/placement.h"
#include "trireme/recompute_choice.h"
#include "trireme/valid.h"

namespace trireme {

/// The dimensions that an axis shards.
struct AxisSharding {
  std::string axis{};
  std::vector<std::string> dims{};
  friend bool operator==(const AxisSharding&, const AxisSharding&) = default;
};
/// data: batch; context: sequence; tensor: heads, hidden and vocabulary; expert: batch and experts.
[[nodiscard]] std::vector<AxisSharding> default_sharding();

struct Plan {
  /// Axes: `pipe` is for stages, `data` for ZeRO; `sharding` lists the dimensions that the others shard.
  Mesh mesh{};
  int microbatches = 1;
  std::string schedule = "1f1b";         ///< a pipeline schedule's name
  std::optional<PipelineTable> table{};  ///< a custom table, instead of the schedule's
  int chunks = 1;                        ///< stages per pipeline rank, for schedules with a choice
  /// State sharded along `data` between steps: none (0), the optimizer's state (1), also the gradients, which are
  /// reduced in shards (2), also the parameters (3).
  int zero = 0;
  /// Between the tensor-parallel parts of blocks, `tensor` shards activations along the sequence.
  bool sequence = false;
  /// How attention works if `context` shards the sequence: every rank gathers all keys and values; or queries, keys and
  /// values are resharded by heads and back (all-to-all); or KV shards circulate, each rank having one at a time
  /// (ring).
  enum class Context : std::uint8_t { Gather, AllToAll, Ring } context = Context::Gather;
  /// Blocks of each stage, in the order of the stages; empty: as even as possible.
  std::vector<int> stage_blocks{};
  /// Gradients that are all-reduced are packed into buckets of this size, and larger ones run alone; 0: tensors from
  /// 64 KiB on run alone, smaller ones share buckets of 1 MiB.
  Bytes bucket{};
  /// For gradients that are reduced along `data`; see compress_gradients().
  Compression compression{};
  /// Applied to the training graph before it is partitioned (recompute_by()): a budget is for the activations of all
  /// ranks together, as one device would keep them.
  RecomputeChoice recompute{};
  std::vector<AxisSharding> sharding = default_sharding();
  /// The stages of ops that do not run on their block's stage. Gradients and recomputation follow their op; other ops
  /// run where their inputs are.
  std::vector<OpAssignment> ops{};
  std::vector<ValueAssignment> values{};
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// What is wrong, in words: an axis that nothing names, an unknown schedule, a ZeRO stage above 3, … Empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const Plan& plan);

/// The text form (.plan.json): parse_plan(to_text(p)) == p. Missing fields get the defaults above; the mesh is
/// required. parse_plan throws Error(Input) that names the field; its result has no problems().
[[nodiscard]] std::string to_text(const Plan& plan);
/// "gather", "all-to-all", "ring"; parse_context throws Error(Usage) listing them.
[[nodiscard]] std::string_view to_text(Plan::Context context);
[[nodiscard]] Plan::Context parse_context(std::string_view text);
[[nodiscard]] Plan parse_plan(std::string_view text);

/// The placements that a plan requests, by value. The partitioner derives all others.
struct PlacementSpec {
  Axes axes{};
  /// Index of the axis of micro-batches in `axes`; -1: none.
  int micro = -1;
  /// How inputs, parameters and states are placed between steps; replicated if not listed.
  std::map<ValueId, Placement> stored{};
  /// How parameters are placed while forward and backward read them; as stored if not listed.
  std::map<ValueId, Placement> used{};
  /// Computed values that are resharded to these placements, in sequence, as soon as they are computed.
  std::map<ValueId, std::vector<Placement>> forced{};
  /// Axes along which operands circulate in a ring, one shard at a time, if an op can consume a factor in turn
  /// (Factor::Split::InTurn) and the axis shards another of its factors. Otherwise operands are gathered.
  std::set<int> in_turn{};
  /// Overrides of a computed value's placement along single axes of the mesh: sharded along a dimension, or replicated
  /// (-1).
  std::map<ValueId, std::map<int, int>> pinned{};
  /// The minimum number of stages; stages mentioned below count too.
  int stage_count = 1;
  /// The stage of each block. Nodes of no block run where their inputs are: on the stage of the last in the forward, of
  /// the first in the backward; updates run where their parameter is.
  std::map<std::int32_t, int> stages{};
  /// Stages of single nodes, regardless of their block; and nodes that run on the stage of another, earlier one.
  std::map<NodeId, int> op_stages{};
  std::map<NodeId, NodeId> follows{};
  Bytes bucket{};  ///< as Plan::bucket
  /// Stages of parameters, with their state and update, if not the first stage that reads them.
  std::map<ValueId, int> homes{};
};

/// Resolves the plan for the values of a training graph. Values without dimension names are replicated; computed values
/// are placed where their operands are. In addition to the table's names there is "parts", which `data` shards. Throws
/// Error(Usage) if the plan does not fit the graph: more stages than blocks, no sequence to shard, an assignment of an
/// unknown op, …
[[nodiscard]] PlacementSpec resolve_placements(const Graph& graph, const Plan& plan,
                                               const DimNames& names);

/// The plan without assignments that select nothing in the graph: for another graph of the same model.
[[nodiscard]] Plan with_assignments_in(const Graph& graph, Plan plan);
/// The plan with devices instead of stages in its assignments: for another schedule. Requires a valid plan.
[[nodiscard]] Plan with_devices(Plan plan);

/// The table that the plan's pipeline runs; one stage if there is no pipe.
[[nodiscard]] PipelineTable table_of(const Plan& plan);

}  // namespace trireme
