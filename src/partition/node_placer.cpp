#include "partition/node_placer.h"

#include <algorithm>

namespace trireme::partition {
namespace {

bool stands_in(const Factors::Dims& dims, std::int32_t factor) {
  return std::ranges::any_of(
      dims, [&](const auto& dim) { return std::ranges::find(dim, factor) != dim.end(); });
}

Merge merge_of(Factor::Split split) {
  return split == Factor::Split::Maximum ? Merge::Maximum : Merge::Sum;
}

/// Adds axes to a factor's sharding that continue the existing ones, if they shard no other factor.
void add(Assignment& assignment, std::int32_t factor, const Placement::Dim& sharding) {
  Placement::Dim& there = assignment[factor];
  const std::size_t common = std::min(there.axes.size(), sharding.axes.size());
  if (!std::equal(there.axes.begin(), there.axes.begin() + static_cast<std::ptrdiff_t>(common),
                  sharding.axes.begin()) ||
      (common > 0 && there.unit != sharding.unit)) {
    return;
  }
  for (std::size_t i = common; i < sharding.axes.size(); ++i) {
    const bool taken = std::ranges::any_of(assignment, [&](const Placement::Dim& of) {
      return std::ranges::find(of.axes, sharding.axes[i]) != of.axes.end();
    });
    if (taken) {
      return;
    }
    there.axes.push_back(sharding.axes[i]);
    there.unit = sharding.unit;
  }
}

}  // namespace

NodePlacer::NodePlacer(const Graph& graph, const Node& node, const Axes& axes)
    : graph_(graph), node_(node), axes_(axes), factors_(factors_of(graph, node)) {
  find_splittable();
}

/// The outermost factor of a dimension whose size is not 1; -1: the dimension has none.
std::int32_t NodePlacer::leading(const Dim& dim) const {
  const auto it =
      std::ranges::find_if(dim, [&](std::int32_t number) { return factor(number).size != 1; });
  return it != dim.end() ? *it : dim.empty() ? -1 : dim.front();
}

/// Elements of a dimension per step of its leading factor.
std::int64_t NodePlacer::unit_of(const Dim& dim) const {
  const std::int32_t first = leading(dim);
  std::int64_t unit = 1;
  for (const std::int32_t number : dim) {
    unit *= number == first ? 1 : factor(number).size;
  }
  return unit;
}

void NodePlacer::find_splittable() {
  for (const Factor& each : factors_.factors) {
    splittable_.push_back(each.split != Factor::Split::Never &&
                          each.split != Factor::Split::InTurn);
  }
  for (const auto* operands : {&factors_.inputs, &factors_.outputs}) {
    for (const Factors::Dims& dims : *operands) {
      keep_leading(dims);
    }
  }
}

/// A factor that is not the leading one in each of its dimensions would have noncontiguous shards.
void NodePlacer::keep_leading(const Factors::Dims& dims) {
  for (const Dim& dim : dims) {
    for (const std::int32_t number : dim) {
      if (leading(dim) != number) {
        splittable_[number] = false;
      }
    }
  }
}

/// The sharding of a dimension's leading factor, derived from the dimension's; nullopt if boundaries do not align.
std::optional<Placement::Dim> NodePlacer::factor_sharding(const Placement::Dim& sharding,
                                                          const Dim& dim, std::int64_t size) const {
  const std::int64_t inner = unit_of(dim);
  if (inner == 0) {
    return std::nullopt;
  }
  Placement::Dim coarse = sharding;
  coarse.unit = sharding.unit % inner == 0 ? sharding.unit : inner;
  if (canonical(coarse, size, axes_) != sharding) {
    return std::nullopt;
  }
  coarse.unit /= inner;
  return canonical(coarse, factor(leading(dim)).size, axes_);
}

void NodePlacer::vote_in(Assignment& assignment, const Dim& dim, const Placement::Dim& sharding,
                         std::int64_t size) const {
  const std::int32_t number = leading(dim);
  if (number < 0 || !splittable_[number]) {
    return;
  }
  // If boundaries of the innermost axes do not align, the outer ones may.
  for (Placement::Dim outer = sharding; !outer.axes.empty(); outer.axes.pop_back()) {
    outer = canonical(outer, size, axes_);
    if (const std::optional<Placement::Dim> of_factor = factor_sharding(outer, dim, size)) {
      add(assignment, number, *of_factor);
      return;
    }
  }
}

void NodePlacer::vote(Assignment& assignment, std::size_t k, const Placement& placement) const {
  for (std::size_t d = 0; d < placement.dims.size(); ++d) {
    vote_in(assignment, factors_.inputs[k][d], placement.dims[d], shape(node_.inputs[k]).dims()[d]);
  }
}

void NodePlacer::vote_for_output(Assignment& assignment, std::size_t k, const Placement& placement,
                                 int axis) const {
  const int d = placement.dimension_of(axis);
  if (d >= 0) {
    vote_in(assignment, factors_.outputs[k][d], placement.dims[d],
            shape(node_.outputs[k]).dims()[d]);
  }
}

void NodePlacer::vote_for_new(Assignment& assignment, std::size_t k,
                              const Placement& placement) const {
  for (std::size_t d = 0; d < placement.dims.size(); ++d) {
    const Dim& dim = factors_.outputs[k][d];
    const std::int32_t number = leading(dim);
    const bool is_new = std::ranges::none_of(
        factors_.inputs, [&](const Factors::Dims& dims) { return stands_in(dims, number); });
    if (is_new) {
      vote_in(assignment, dim, placement.dims[d], shape(node_.outputs[k]).dims()[d]);
    }
  }
}

void NodePlacer::take_in_turn(Assignment& assignment, const std::set<int>& axes) const {
  for (std::size_t f = 0; f < assignment.size(); ++f) {
    if (factors_.factors[f].split != Factor::Split::InTurn) {
      continue;
    }
    for (std::size_t g = 0; g < assignment.size(); ++g) {
      const bool each_has_one = std::ranges::all_of(factors_.outputs, [&](const auto& dims) {
        return stands_in(dims, static_cast<std::int32_t>(f)) !=
               stands_in(dims, static_cast<std::int32_t>(g));
      });
      const bool any_has_both = std::ranges::any_of(factors_.inputs, [&](const auto& dims) {
        return stands_in(dims, static_cast<std::int32_t>(f)) &&
               stands_in(dims, static_cast<std::int32_t>(g));
      });
      const auto& by = assignment[g].axes;
      const auto axis = std::ranges::find_if(by, [&](int one) { return axes.contains(one); });
      if (axis != by.end() && each_has_one && !any_has_both && assignment[f].axes.empty()) {
        assignment[f].axes = {*axis};
      }
    }
  }
}

Placement NodePlacer::placement_of(const Assignment& assignment, const Factors::Dims& dims,
                                   const Shape& shape) const {
  Placement placement = Placement::replicated(static_cast<int>(dims.size()));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int32_t number = leading(dims[d]);
    if (number >= 0 && !assignment[number].axes.empty()) {
      placement.dims[d] = assignment[number];
      placement.dims[d].unit *= unit_of(dims[d]);
    }
  }
  return canonical(placement, shape, axes_);
}

Placement NodePlacer::input_placement(const Assignment& assignment, std::size_t k) const {
  return placement_of(assignment, factors_.inputs[k], shape(node_.inputs[k]));
}

Placement NodePlacer::output_placement(const Assignment& assignment, std::size_t k) const {
  Placement placement = placement_of(assignment, factors_.outputs[k], shape(node_.outputs[k]));
  for (std::size_t f = 0; f < assignment.size(); ++f) {
    if (stands_in(factors_.outputs[k], static_cast<std::int32_t>(f)) ||
        factors_.factors[f].split == Factor::Split::InTurn) {
      continue;
    }
    for (const int axis : assignment[f].axes) {
      if (placement.dimension_of(axis) >= 0) {
        continue;  // accumulated as it circulates
      }
      placement.partial[axis] = merge_of(factors_.factors[f].split);
    }
  }
  return placement;
}

}  // namespace trireme::partition
