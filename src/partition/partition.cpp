#include "trireme/partition.h"

#include "partition/lower.h"
#include "partition/place.h"

namespace trireme {

struct Partition::Decided {
  partition::Placed placed;
};

Partition::Partition(const Graph& graph, const Wishes& wishes)
    : decided_(std::make_unique<Decided>(Decided{partition::place(graph, wishes)})) {}

Partition::~Partition() = default;

RankGraph Partition::graph_at(const RankPlace& place, const PipelineTable& table,
                              const std::vector<int>& pipe_ranks) const {
  return partition::lower(decided_->placed, place, table, pipe_ranks);
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
