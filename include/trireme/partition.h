// Partition: a graph and what each device should have of its values, in; what each rank computes and exchanges,
// out. Every rule is in the ops' factors and in the re-partition triangle; nothing here knows the name of any
// kind of parallelism. Any thread.
//
// Nodes are taken in order. Each computes where its operands are: the axes that cut a factor in its inputs cut it
// in the node; where inputs disagree, the parameters' cuts win, else the way that moves the fewest bytes. An
// operand that lies otherwise is changed first, and a change is done once for all that need it in the same part
// of the step. A result lacking a factor that is cut is partial; it is passed on as such through linear ops and
// merged where something needs the whole.
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

namespace trireme {

/// A graph with the names of its dimensions.
struct NamedGraph {
  Graph graph{};
  DimNames names{};
};

/// The training graph with gradients compressed as the plan says; as it was, if the plan says nothing of it. Of the
/// parts g_i of a gradient g that the ranks along `data` have, each is packed with what was left of it before:
///
///   a_i = g_i + residual_i,  sent_i = unpack(pack(a_i)),  residual_i' = a_i - sent_i,  g is replaced by the sum of sent_i
///
/// so that sent and residual together are the gradient. In addition the graph has the states
///
///   residual/PARAMETER  [ranks along data, ..], in f32 at least; 0 at the beginning
///   basis/PARAMETER     [b, r] for Compression::Method::Power: what the last step's matrices [a, b] were multiplied
///                       by; 0 at the beginning, which stands for one that is drawn
///
/// A step that is not taken leaves them as they were. Gradients with fewer than Compression::kLeastElements stay
/// uncompressed, and so do those that an axis of the mesh does not cut evenly, those that are merged before they are
/// whole (of positions that no sequence has), and for Power those that it would make no smaller. Where other axes cut a gradient, each part is packed for itself, but for Power. Throws Error(Usage) if the
/// mesh has no axis `data`, or the loss is scaled.
[[nodiscard]] NamedGraph compress_gradients(const Graph& graph, const Plan& plan,
                                            const DimNames& names);
/// What the states' names begin with.
inline constexpr std::string_view kResidual = "residual/";
inline constexpr std::string_view kBasis = "basis/";

/// Where a rank is: its coordinates on the axes (0 on micro), its place in the pipeline, and the ranks of all places
/// along each axis (none on micro) and of the pipeline that have the other coordinates in common with it.
struct RankPlace {
  std::vector<int> coordinates{};
  std::vector<std::vector<int>> axis_ranks{};
  int pipe = 0;
  std::vector<int> pipe_ranks{0};
};
[[nodiscard]] RankPlace place_of(const Plan& plan, const PlacementSpec& placements, int rank);

/// The graph that one rank runs in a step, with exchanges as nodes. Inputs, parameters and states have the names
/// and the parts' shapes; which part, `stored` says.
struct RankGraph {
  Graph graph{};
  std::map<std::string, Placement> stored{};
  /// How outputs lie. Scalars are whole on all ranks; others are where they were computed, and missing where
  /// they come in micro-batches.
  std::map<std::string, Placement> outputs{};
};

class Partition {
 public:
  /// Decides how each node is computed. Throws Error(Usage) if a wish does not fit its value.
  Partition(const Graph& graph, const PlacementSpec& placements);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  /// What the rank at this place runs. The table's stages are those of the placements.
  [[nodiscard]] RankGraph graph_at(const RankPlace& place, const PipelineTable& table) const;

  /// How an input, parameter or state lies between steps, or an output after one, and the stage that has it (0 for
  /// inputs, which are on all stages that read them). Throws Error(Usage) if there is none of that name.
  [[nodiscard]] Placement stored(std::string_view name) const;
  [[nodiscard]] int home(std::string_view name) const;

  /// Each step with its placements, for people.
  [[nodiscard]] std::string to_text() const;

 private:
  struct Decided;
  std::unique_ptr<Decided> decided_;
};

/// The groups that exchanges name, by rank: those along each axis of the mesh.
[[nodiscard]] std::vector<RankGroups> groups_of(const Mesh& mesh);

}  // namespace trireme
