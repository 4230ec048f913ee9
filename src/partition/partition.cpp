#include "trireme/partition.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "partition/lower.h"
#include "partition/place.h"
#include "partition/rank_kinds.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {

RankPlace place_of(const Plan& plan, const PlacementSpec& placements, int rank) {
  const std::vector<MeshAxis>& axes = plan.mesh.axes();
  const std::vector<int> all = plan.mesh.coordinates(rank);
  RankPlace place;
  place.coordinates.resize(placements.axes.size(), 0);
  place.axis_ranks.resize(placements.axes.size());
  place.pipe_ranks = {rank};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const int known = find_axis(placements.axes, axes[a].name);
    if (known >= 0) {
      place.coordinates[known] = all[a];
      place.axis_ranks[known] = plan.mesh.group_of(axes[a].name, rank);
    }
    if (axes[a].name == "pipe") {
      place.pipe = all[a];
      place.pipe_ranks = plan.mesh.group_of("pipe", rank);
    }
  }
  return place;
}

std::vector<RankPlace> places_of(const Plan& plan, const PlacementSpec& placements) {
  std::vector<RankPlace> places;
  places.reserve(plan.mesh.devices());
  for (int rank = 0; rank < plan.mesh.devices(); ++rank) {
    places.push_back(place_of(plan, placements, rank));
  }
  return places;
}

struct Partition::Decided {
  partition::Placed placed;

  /// A value before a step, or after it as an output.
  [[nodiscard]] const partition::Copy& find(std::string_view name) const {
    for (const partition::Copy& copy : placed.copies) {
      if (copy.step < 0 && placed.value(copy).name == name) {
        return copy;
      }
    }
    for (std::size_t k = 0; k < placed.outputs.size(); ++k) {
      if (placed.graph.outputs()[k].name == name) {
        return placed.copy(placed.outputs[k]);
      }
    }
    throw Error(ErrorKind::Usage,
                fmt::format("{} is neither kept between steps nor an output", name));
  }
};

Partition::Partition(const Graph& graph, const PlacementSpec& placements)
    : decided_(std::make_unique<Decided>(Decided{partition::place(graph, placements)})) {}

Partition::~Partition() = default;

RankGraph Partition::graph_at(const RankPlace& place, const PipelineTable& table) const {
  return partition::lower(decided_->placed, place, table);
}

Placement Partition::stored(std::string_view name) const {
  return decided_->find(name).placement;
}

int Partition::home(std::string_view name) const {
  return decided_->placed.stage_of(decided_->find(name));
}

std::vector<PlacedOp> Partition::ops() const {
  const partition::Placed& placed = decided_->placed;
  std::vector<PlacedOp> ops;
  for (const partition::PlacedStep& step : placed.steps) {
    if (!step.node.valid() || step.outputs.empty()) {
      continue;
    }
    const Node& node = placed.graph.node(step.node);
    const partition::Copy& result = placed.copy(step.outputs.front());
    PlacedOp op{.name = placed.value(result).name,
                .kind = std::string(node.op->name),
                .phase = step.phase,
                .block = step.block,
                .stage = step.stage,
                .inputs = {},
                .type = placed.value(result).type,
                .placement = result.placement};
    for (const ValueId input : node.inputs) {
      op.inputs.push_back(placed.graph.value(input).name);
    }
    ops.push_back(std::move(op));
  }
  return ops;
}

std::vector<PlacedValue> Partition::values() const {
  const partition::Placed& placed = decided_->placed;
  std::vector<PlacedValue> values;
  IndexedVector<ValueId, bool> seen(placed.graph.values().size(), false);
  for (const partition::Copy& copy : placed.copies) {
    // The first copy of a value is how it is stored or computed.
    if (seen[copy.value]) {
      continue;
    }
    seen[copy.value] = true;
    const Value& value = placed.value(copy);
    values.push_back({.name = value.name,
                      .origin = value.origin,
                      .type = value.type,
                      .placement = copy.placement,
                      .stage = value.origin == Origin::Input ? -1 : placed.stage_of(copy)});
  }
  return values;
}

RankKinds Partition::kinds(const Plan& plan, const PlacementSpec& placements) const {
  return partition::rank_kinds(decided_->placed, places_of(plan, placements),
                               partition::Alike::Work);
}

std::string Partition::to_text() const {
  return partition::to_text(decided_->placed);
}

std::vector<RankGroups> groups_of(const Mesh& mesh) {
  IndexedVector<int, RankGroups> all(mesh.devices());
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    for (const MeshAxis& axis : mesh.axes()) {
      all[rank][axis.name] = mesh.group_of(axis.name, rank);
    }
  }
  return std::move(all).items();
}

}  // namespace trireme
