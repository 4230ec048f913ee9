#include "trireme/memory_prediction.h"

#include <algorithm>
#include <map>
#include <utility>

#include "autodiff/fusion_groups.h"
#include "base/indexed_vector.h"
#include "partition/early_gathers.h"
#include "partition/place.h"
#include "partition/rank_kinds.h"
#include "partition/rank_outline.h"
#include "program/lifetimes.h"
#include "program/memory_use.h"

namespace trireme {
namespace {

using partition::ShardTypes;

class Predictor {
 public:
  Predictor(const NamedGraph& graph, const Plan& plan)
      : plan_(plan),
        spec_(resolve_placements(graph.graph, plan, graph.names)),
        table_(table_of(plan)),
        placed_(partition::place(graph.graph, spec_)),
        order_(partition::start_gathers_early(placed_, partition::RunOrder(placed_, table_))),
        messages_(placed_, table_, order_) {}

  MemoryPrediction all() {
    const std::vector<std::vector<std::size_t>> kinds = partition::coordinate_kinds(placed_);
    MemoryPrediction prediction;
    std::map<std::pair<std::vector<std::size_t>, int>, std::size_t> known;
    for (int rank = 0; rank < plan_.mesh.devices(); ++rank) {
      const RankPlace place = place_of(plan_, spec_, rank);
      std::vector<std::size_t> shards;
      for (std::size_t a = 0; a < kinds.size(); ++a) {
        shards.push_back(kinds[a][position_of(place.coordinates[a])]);
      }
      const auto [it, is_new] =
          known.try_emplace({std::move(shards), place.pipe}, prediction.kinds.size());
      if (is_new) {
        prediction.kinds.push_back({.first_rank = rank, .ranks = 0, .use = {}});
      }
      ++prediction.kinds[it->second].ranks;
      prediction.kind_of.push_back(it->second);
    }
    std::map<std::vector<std::size_t>, ShardTypes> types;
    for (const auto& [kind, number] : known) {
      MemoryPrediction::Kind& one = prediction.kinds[number];
      const RankPlace place = place_of(plan_, spec_, one.first_rank);
      one.use = at(place, types.try_emplace(kind.first, placed_, place.coordinates).first->second);
    }
    return prediction;
  }

  MemoryUse at(int rank) {
    const RankPlace place = place_of(plan_, spec_, rank);
    ShardTypes types(placed_, place.coordinates);
    return at(place, types);
  }

 private:
  [[nodiscard]] MemoryUse at(const RankPlace& place, ShardTypes& types) const {
    Outline outline =
        fuse_elementwise(partition::outline_at({placed_, table_, order_, messages_}, place, types));
    const Lifetimes lifetimes = find_lifetimes(outline);
    return memory_use(lifetimes.storages, outline.nodes.size());
  }

  const Plan& plan_;
  PlacementSpec spec_;
  PipelineTable table_;
  partition::Placed placed_;
  partition::RunOrder order_;
  partition::Messages messages_;
};

}  // namespace

const MemoryPrediction::Kind& MemoryPrediction::largest() const {
  return *std::ranges::max_element(kinds, {}, [](const Kind& kind) { return kind.use.peak; });
}

MemoryPrediction predict_memory(const NamedGraph& graph, const Plan& plan) {
  return Predictor(graph, plan).all();
}

MemoryUse predict_memory(const NamedGraph& graph, const Plan& plan, int rank) {
  return Predictor(graph, plan).at(rank);
}

}  // namespace trireme
