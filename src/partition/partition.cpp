#include "trireme/partition.h"

#include "partition/lower.h"
#include "partition/place.h"

namespace trireme {

RankPlace place_of(const Plan& plan, const Wishes& wishes, int rank) {
  const std::vector<MeshAxis>& axes = plan.mesh.axes();
  const std::vector<int> all = plan.mesh.coordinates(rank);
  RankPlace place;
  place.coordinates.resize(wishes.axes.size(), 0);
  place.pipe_ranks = {rank};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const int known = find_axis(wishes.axes, axes[a].name);
    if (known >= 0) {
      place.coordinates[static_cast<std::size_t>(known)] = all[a];
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

std::string Partition::to_text() const {
  return partition::to_text(decided_->placed);
}

}  // namespace trireme
