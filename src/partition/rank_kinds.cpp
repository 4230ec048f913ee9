#include "partition/rank_kinds.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "partition/ring_op.h"
#include "trireme/op.h"

namespace trireme::partition {
namespace {

/// A sharded dimension of some value.
struct ShardedDim {
  Placement::Dim dim{};
  std::int64_t size = 0;
};

bool is_uneven(const ShardedDim& one, const Axes& axes) {
  std::int64_t shards = one.dim.unit;
  for (const int axis : one.dim.axes) {
    shards *= axes[axis].size;
  }
  return one.size % shards != 0;
}

std::vector<ShardedDim> uneven_dims(const Placed& placed) {
  std::set<std::tuple<std::vector<int>, std::int64_t, std::int64_t>> seen;
  std::vector<ShardedDim> found;
  for (const Copy& copy : placed.copies) {
    const std::vector<std::int64_t>& sizes = placed.value(copy).type.shape.dims();
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const ShardedDim one{copy.placement.dims[d], sizes[d]};
      if (!one.dim.axes.empty() && is_uneven(one, placed.axes()) &&
          seen.insert({one.dim.axes, one.dim.unit, one.size}).second) {
        found.push_back(one);
      }
    }
  }
  return found;
}

/// The lengths of a dimension's shards at a coordinate of an axis, for all coordinates of the other axes.
void add_lengths(const ShardedDim& one, const Axes& axes, int axis, std::vector<int>& at,
                 std::size_t level, std::vector<std::int64_t>& lengths) {
  if (level == one.dim.axes.size()) {
    lengths.push_back(block_at(one.dim, one.size, axes, at).length);
    return;
  }
  const int next = one.dim.axes[level];
  if (next == axis) {
    add_lengths(one, axes, axis, at, level + 1, lengths);
    return;
  }
  for (at[next] = 0; at[next] < axes[next].size; ++at[next]) {
    add_lengths(one, axes, axis, at, level + 1, lengths);
  }
  at[next] = 0;
}

/// Of all these dimensions that the axis shards.
std::vector<std::int64_t> lengths_at(const std::vector<ShardedDim>& dims, const Axes& axes,
                                     int axis, std::vector<int>& at) {
  std::vector<std::int64_t> lengths;
  for (const ShardedDim& one : dims) {
    if (std::ranges::find(one.dim.axes, axis) != one.dim.axes.end()) {
      add_lengths(one, axes, axis, at, 0, lengths);
    }
  }
  return lengths;
}

/// The steps whose work may depend on the position of a shard: one of each set of equal ones, as blocks of a model are.
std::vector<const PlacedStep*> positioned_steps(const Placed& placed) {
  using Key = std::tuple<const Op*, Attributes, std::vector<std::vector<std::int64_t>>,
                         std::vector<std::vector<int>>>;
  std::set<Key> seen;
  std::vector<const PlacedStep*> found;
  for (const PlacedStep& step : placed.steps) {
    const Op* op = step.node.valid() ? placed.graph.node(step.node).op : nullptr;
    if (op == nullptr || op->part == nullptr || op->work == nullptr) {
      continue;
    }
    Key key{op, placed.graph.node(step.node).attributes, {}, {}};
    for (const CopyId input : step.inputs) {
      std::get<2>(key).push_back(placed.value(input).type.shape.dims());
    }
    for (const Placement::Dim& factor : step.factors) {
      std::get<3>(key).push_back(factor.axes);
    }
    if (seen.insert(std::move(key)).second) {
      found.push_back(&step);
    }
  }
  return found;
}

/// On the rank at these coordinates.
Work work_at(const Placed& placed, const PlacedStep& step, std::span<const int> at) {
  const Node& node = placed.graph.node(step.node);
  const Signature whole = signature_of(placed.graph, node);
  const Attributes attributes =
      node.op->part(whole, ranges_at(node.op->factors(whole), step.factors, placed.axes(), at));
  Signature own{.op = node.op, .inputs = {}, .attributes = &attributes};
  for (const CopyId input : step.inputs) {
    const TensorType& type = placed.value(input).type;
    own.inputs.push_back(
        {type.dtype, shape_at(placed.copy(input).placement, type.shape, placed.axes(), at)});
  }
  return node.op->work(own);
}

bool is_sharded_by(const PlacedStep& step, int axis) {
  return std::ranges::any_of(step.factors, [&](const Placement::Dim& factor) {
    return std::ranges::find(factor.axes, axis) != factor.axes.end();
  });
}

/// The work at a coordinate of an axis of all these steps that the axis shards.
std::vector<double> work_along(const Placed& placed, const std::vector<const PlacedStep*>& steps,
                               int axis, std::span<const int> at) {
  std::vector<double> all;
  for (const PlacedStep* step : steps) {
    if (is_sharded_by(*step, axis)) {
      const Work work = work_at(placed, *step, at);
      all.insert(all.end(), {work.products, work.causal, work.others, work.bytes});
    }
  }
  return all;
}

}  // namespace

std::vector<std::vector<std::size_t>> coordinate_kinds(const Placed& placed, Alike alike) {
  const Axes& axes = placed.axes();
  const std::vector<ShardedDim> uneven = uneven_dims(placed);
  const std::vector<const PlacedStep*> positioned =
      alike == Alike::Work ? positioned_steps(placed) : std::vector<const PlacedStep*>{};
  std::vector<std::vector<std::size_t>> kinds(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const auto axis = static_cast<int>(a);
    const bool in_turn = placed.placements.in_turn.contains(axis);
    std::map<std::pair<std::vector<std::int64_t>, std::vector<double>>, std::size_t> known;
    std::vector<int> at(axes.size(), 0);
    for (at[a] = 0; at[a] < axes[a].size; ++at[a]) {
      std::vector<std::int64_t> lengths = lengths_at(uneven, axes, axis, at);
      if (in_turn) {
        lengths.push_back(at[a]);
      }
      kinds[a].push_back(
          known
              .try_emplace({std::move(lengths), work_along(placed, positioned, axis, at)},
                           known.size())
              .first->second);
    }
  }
  return kinds;
}

RankKinds rank_kinds(const Placed& placed, std::span<const RankPlace> places, Alike alike) {
  const std::vector<std::vector<std::size_t>> kinds = coordinate_kinds(placed, alike);
  RankKinds found;
  std::map<std::pair<std::vector<std::size_t>, int>, std::size_t> known;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    std::vector<std::size_t> shards;
    for (std::size_t a = 0; a < kinds.size(); ++a) {
      shards.push_back(kinds[a][places[rank].coordinates[a]]);
    }
    const auto [it, is_new] =
        known.try_emplace({std::move(shards), places[rank].pipe}, found.first_rank.size());
    if (is_new) {
      found.first_rank.push_back(static_cast<int>(rank));
    }
    found.kind_of.push_back(it->second);
  }
  return found;
}

}  // namespace trireme::partition
