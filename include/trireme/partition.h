// Partition: derives the computation and communication of each rank from a graph and the requested placements. All
// rules come from the ops' factors and the conversions between placements; nothing here refers to a kind of parallelism
// by name. Callable from any thread.
//
// Nodes are processed in order. Each is computed where its operands are: axes that shard a factor in its inputs shard
// it in the node; if inputs disagree, the parameters' sharding wins, else the one that moves the fewest bytes. An
// operand with another placement is resharded first, once for all consumers in the same phase of the step. A result
// that lacks a sharded factor is partial; linear ops propagate partial values, and the value is reduced where an op
// needs it in full.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph.h"
#include "trireme/pipeline.h"
#include "trireme/plan.h"
#include "trireme/program_set.h"
#include "trireme/rank_graph.h"

namespace trireme {

/// A graph with the names of its dimensions.
struct NamedGraph {
  Graph graph{};
  DimNames names{};
};

/// The training graph with gradients compressed as the plan says, or unchanged if the plan does not compress. Each rank
/// along `data` has a term g_i of a gradient g. It packs the term together with the residual of earlier steps:
///
///   a_i = g_i + residual_i,  sent_i = unpack(pack(a_i)),  residual_i' = a_i - sent_i,  g := the sum of all sent_i
///
/// so that sent and residual add up to the gradient. The graph gets additional states:
///
///   residual/PARAMETER  [ranks along data, ..], at least f32; initially 0
///   basis/PARAMETER     [b, r] for Compression::Method::Power: what the last step's matrices [a, b] were multiplied
///                       by; initially 0, which stands for a random one
///
/// A skipped step does not change them. Gradients with fewer than Compression::kMinElements stay uncompressed, as do
/// those that an axis of the mesh does not shard evenly, those that are reduced before they are complete (of positions
/// that no sequence has), and for Power those that it would not make smaller. Where other axes shard a gradient, each
/// shard is packed separately, except for Power. Throws Error(Usage) if the mesh has no axis `data`, or the loss is
/// scaled.
[[nodiscard]] NamedGraph compress_gradients(const Graph& graph, const Plan& plan,
                                            const DimNames& names);
/// Prefixes of the states' names.
inline constexpr std::string_view kResidual = "residual/";
inline constexpr std::string_view kBasis = "basis/";

/// The position of a rank of the mesh.
[[nodiscard]] RankPlace place_of(const Plan& plan, const PlacementSpec& placements, int rank);
/// Those of all ranks.
[[nodiscard]] std::vector<RankPlace> places_of(const Plan& plan, const PlacementSpec& placements);

/// How an op of the graph is computed.
struct PlacedOp {
  std::string name{};  ///< of its first result
  std::string kind{};  ///< "einsum"
  Phase phase = Phase::Forward;
  std::int32_t block = -1;
  int stage = 0;
  std::vector<std::string> inputs{};
  TensorType type{};      ///< of its first result
  Placement placement{};  ///< likewise, as computed
};

/// How a value of the graph is placed.
struct PlacedValue {
  std::string name{};
  Origin origin = Origin::Node;
  TensorType type{};
  Placement placement{};  ///< as stored or computed, before any resharding
  int stage = -1;         ///< -1: on every stage that reads it
};

class Partition {
 public:
  /// Decides how each node is computed. Throws Error(Usage) if a requested placement does not fit its value.
  Partition(const Graph& graph, const PlacementSpec& placements);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  /// The graph of the rank at this place. The table's stages are those of the placements.
  [[nodiscard]] RankGraph graph_at(const RankPlace& place, const PipelineTable& table) const;

  /// The placement of an input, parameter or state between steps, or of an output after one, and the stage that has it
  /// (0 for inputs, which are on all stages that read them). Throws Error(Usage) if there is no such value.
  [[nodiscard]] Placement stored(std::string_view name) const;
  [[nodiscard]] int home(std::string_view name) const;

  /// Requires the placements that this partition was made with.
  [[nodiscard]] RankKinds kinds(const Plan& plan, const PlacementSpec& placements) const;

  /// In graph order.
  [[nodiscard]] std::vector<PlacedOp> ops() const;
  [[nodiscard]] std::vector<PlacedValue> values() const;

  /// Each step with its placements, in readable form.
  [[nodiscard]] std::string to_text() const;

 private:
  struct Decided;
  std::unique_ptr<Decided> decided_;
};

/// The groups that communication ops refer to, by rank: one along each axis of the mesh.
[[nodiscard]] std::vector<RankGroups> groups_of(const Mesh& mesh);

}  // namespace trireme
