#include "partition/compressible.h"

#include <optional>
#include <set>
#include <utility>

#include "graph/ops/optimizer_step.h"
#include "partition/place.h"

namespace trireme::partition {
namespace {

/// Values that are partial along the axis when they are computed.
std::set<ValueId> partial_values(const Placed& placed) {
  const int axis = find_axis(placed.placements.axes, kCompressedAxis);
  std::set<ValueId> found;
  for (const PlacedStep& step : placed.steps) {
    for (const CopyId output : step.outputs) {
      const Copy& copy = placed.copies[output];
      if (step.node.valid() && copy.placement.partial.contains(axis)) {
        found.insert(copy.value);
      }
    }
  }
  return found;
}

std::int64_t rows_before(const Numbers& dims, std::size_t split) {
  return product({dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(split)});
}

/// Whether a matrix split before this dimension has contiguous shards.
bool keeps_shards_contiguous(const Compressible& one, std::size_t split) {
  for (std::size_t d = 1; d < one.dims.size(); ++d) {
    if (one.shards[d] > 1 && d != split) {
      return false;
    }
  }
  return true;
}

/// The dimension at which to split for the most square matrix in which shards stay contiguous; 0 if none is
/// worthwhile.
std::size_t best_split(const Compressible& one, int rank) {
  std::size_t best = 0;
  std::int64_t least = product(one.dims);
  for (std::size_t s = 1; s < one.dims.size(); ++s) {
    const std::int64_t rows = rows_before(one.dims, s);
    const std::int64_t sent = rank * (rows + product(one.dims) / rows);
    if (keeps_shards_contiguous(one, s) && sent < least) {
      least = sent;
      best = s;
    }
  }
  return best;
}

/// The gradient of an optimizer's step, unless it is too small or unevenly sharded.
std::optional<Compressible> compressible(const Graph& graph, const Node& step,
                                         const Placement& placement, const Axes& axes,
                                         const Compression& how) {
  Compressible one{.parameter = step.inputs[0], .gradient = step.inputs[1], .block = step.block};
  one.dims = graph.value(one.gradient).type.shape.dims();
  bool fits = product(one.dims) >= Compression::kMinElements;
  for (std::size_t d = 0; d < one.dims.size(); ++d) {
    std::int64_t parts = 1;
    for (const int axis : placement.dims[d].axes) {
      parts *= axes[axis].size;
    }
    one.shards.push_back(parts);
    fits = fits && one.dims[d] % parts == 0;
  }
  if (fits && how.method == Compression::Method::Power) {
    one.split = best_split(one, how.rank);
    fits = one.split > 0;
  }
  return fits ? std::optional(std::move(one)) : std::nullopt;
}

}  // namespace

Numbers joined(Numbers a, const Numbers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::int64_t product(const Numbers& numbers) {
  std::int64_t all = 1;
  for (const std::int64_t number : numbers) {
    all *= number;
  }
  return all;
}

std::int64_t Compressible::rows() const {
  return rows_before(dims, split);
}

std::vector<Compressible> compressible_gradients(const Graph& graph, const Plan& plan,
                                                 const DimNames& names) {
  Plan whole = plan;
  whole.zero = 0;
  const PlacementSpec placements = resolve_placements(graph, whole, names);
  const std::set<ValueId> summands = partial_values(place(graph, placements));
  std::vector<Compressible> found;
  for (const Node& node : graph.nodes()) {
    if (!ops::is_optimizer_step(node) || !summands.contains(node.inputs[1])) {
      continue;
    }
    const auto stored = placements.stored.find(node.inputs[0]);
    if (stored == placements.stored.end()) {
      continue;
    }
    if (auto one = compressible(graph, node, stored->second, placements.axes, plan.compression)) {
      found.push_back(*std::move(one));
    }
  }
  return found;
}

}  // namespace trireme::partition
