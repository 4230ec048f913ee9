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
    RankKinds kinds =
        partition::rank_kinds(placed_, places_of(plan_, spec_), partition::Alike::Sizes);
    MemoryPrediction prediction;
    // Ranks that differ in their pipeline coordinate alone have shards of the same types.
    std::map<std::vector<int>, ShardTypes> types;
    for (const int first : kinds.first_rank) {
      const RankPlace place = place_of(plan_, spec_, first);
      ShardTypes& own =
          types.try_emplace(place.coordinates, placed_, place.coordinates).first->second;
      prediction.kinds.push_back({.first_rank = first, .ranks = 0, .use = at(place, own)});
    }
    for (const std::size_t kind : kinds.kind_of) {
      ++prediction.kinds[kind].ranks;
    }
    prediction.kind_of = std::move(kinds.kind_of);
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
    return memory_use(lifetimes.storages.items(), outline.nodes.size());
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
