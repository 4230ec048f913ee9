#include "partition/rank_kinds.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/indexed_vector.h"

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
    shards *= axes[position_of(axis)].size;
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
  const std::size_t position = position_of(next);
  for (at[position] = 0; at[position] < axes[position].size; ++at[position]) {
    add_lengths(one, axes, axis, at, level + 1, lengths);
  }
  at[position] = 0;
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

}  // namespace

std::vector<std::vector<std::size_t>> coordinate_kinds(const Placed& placed) {
  const Axes& axes = placed.axes();
  const std::vector<ShardedDim> uneven = uneven_dims(placed);
  std::vector<std::vector<std::size_t>> kinds(axes.size());
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const auto axis = static_cast<int>(a);
    const bool in_turn = placed.placements.in_turn.contains(axis);
    std::map<std::vector<std::int64_t>, std::size_t> known;
    std::vector<int> at(axes.size(), 0);
    for (at[a] = 0; at[a] < axes[a].size; ++at[a]) {
      std::vector<std::int64_t> lengths = lengths_at(uneven, axes, axis, at);
      if (in_turn) {
        lengths.push_back(at[a]);
      }
      kinds[a].push_back(known.try_emplace(lengths, known.size()).first->second);
    }
  }
  return kinds;
}

}  // namespace trireme::partition
