#include "trireme/partition.h"

#include <algorithm>

#include <fmt/format.h>

#include "partition/lower.h"
#include "partition/place.h"
#include "trireme/error.h"

namespace trireme {

RankPlace place_of(const Plan& plan, const Wishes& wishes, int rank) {
  const std::vector<MeshAxis>& axes = plan.mesh.axes();
  const std::vector<int> all = plan.mesh.coordinates(rank);
  RankPlace place;
  place.coordinates.resize(wishes.axes.size(), 0);
  place.axis_ranks.resize(wishes.axes.size());
  place.pipe_ranks = {rank};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const int known = find_axis(wishes.axes, axes[a].name);
    if (known >= 0) {
      place.coordinates[static_cast<std::size_t>(known)] = all[a];
      place.axis_ranks[static_cast<std::size_t>(known)] = plan.mesh.group_of(axes[a].name, rank);
    }
    if (axes[a].name == "pipe") {
      place.pipe = all[a];
      place.pipe_ranks = plan.mesh.group_of("pipe", rank);
    }
  }
  return place;
}

struct Partition::Decided {
  partition::Placed placed;
};

Partition::Partition(const Graph& graph, const Wishes& wishes)
    : decided_(std::make_unique<Decided>(Decided{partition::place(graph, wishes)})) {}

Partition::~Partition() = default;

RankGraph Partition::graph_at(const RankPlace& place, const PipelineTable& table) const {
  return partition::lower(decided_->placed, place, table);
}

Placement Partition::stored(std::string_view name) const {
  const ValueId id = decided_->placed.graph.find(name);
  for (const partition::Copy& copy : decided_->placed.copies) {
    if (copy.value == id && copy.step < 0) {
      return copy.placement;
    }
  }
  throw Error(ErrorKind::Usage, fmt::format("{} is not kept between steps", name));
}

int Partition::home(std::string_view name) const {
  const ValueId id = decided_->placed.graph.find(name);
  return std::max(decided_->placed.home[static_cast<std::size_t>(id.index)], 0);
}

std::string Partition::to_text() const {
  return partition::to_text(decided_->placed);
}

std::vector<RankGroups> groups_of(const Mesh& mesh) {
  std::vector<RankGroups> all(static_cast<std::size_t>(mesh.devices()));
  for (int rank = 0; rank < mesh.devices(); ++rank) {
    for (const MeshAxis& axis : mesh.axes()) {
      all[static_cast<std::size_t>(rank)][axis.name] = mesh.group_of(axis.name, rank);
    }
  }
  return all;
}

}  // namespace trireme
