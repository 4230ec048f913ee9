#include "partition/changes.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace trireme::partition {
namespace {

class Changer {
 public:
  Changer(const Placement& from, const Placement& to, const Shape& shape, const Axes& axes)
      : at_(from), to_(to), shape_(shape), axes_(axes) {}

  std::vector<Change> run() {
    while (at_ != to_) {
      std::optional<Change> next = reduce();
      next = next ? next : gather();
      next = next ? next : slice();
      TRIREME_CHECK(next.has_value(), to_text(at_, axes_) + " to " + to_text(to_, axes_));
      next->result = canonical(next->result, shape_, axes_);
      at_ = next->result;
      changes_.push_back(std::move(*next));
    }
    return std::move(changes_);
  }

 private:
  /// Whether sharding dimension d by the axis as well brings it closer to the target.
  [[nodiscard]] bool wanted_next(std::size_t d, int axis) const {
    const std::size_t n = at_.dims[d].axes.size();
    return begins_as_wanted(d) && n < to_.dims[d].axes.size() && to_.dims[d].axes[n] == axis;
  }
  /// Whether the axes that shard dimension d are the outermost of the target's.
  [[nodiscard]] bool begins_as_wanted(std::size_t d) const {
    const std::size_t n = at_.dims[d].axes.size();
    if (n > to_.dims[d].axes.size()) {
      return false;
    }
    Placement begin = Placement::replicated(static_cast<int>(at_.dims.size()));
    begin.dims[d] = to_.dims[d];
    begin.dims[d].axes.resize(n);
    return canonical(begin, shape_, axes_).dims[d] == at_.dims[d];
  }
  [[nodiscard]] std::optional<std::size_t> wanted_at(int axis) const {
    for (std::size_t d = 0; d < at_.dims.size(); ++d) {
      if (wanted_next(d, axis)) {
        return d;
      }
    }
    return std::nullopt;
  }
  void shard(Placement& placement, std::size_t d, int axis) const {
    placement.dims[d].axes.push_back(axis);
    placement.dims[d].unit = to_.dims[d].unit;
  }

  std::optional<Change> reduce() {
    for (const auto& [axis, merge] : at_.partial) {
      if (to_.partial.contains(axis)) {
        continue;
      }
      Change change{
          .kind = ChangeKind::AllReduce, .axis = axis, .dimension = -1, .to = -1, .result = at_};
      change.result.partial.erase(axis);
      if (const std::optional<std::size_t> d = wanted_at(axis)) {
        change.kind = ChangeKind::ReduceScatter;
        change.dimension = static_cast<int>(*d);
        shard(change.result, *d, axis);
      }
      return change;
    }
    return std::nullopt;
  }

  /// Removes the innermost axis of a dimension that has an extra one.
  std::optional<Change> gather() {
    for (std::size_t d = 0; d < at_.dims.size(); ++d) {
      if (begins_as_wanted(d)) {
        continue;
      }
      const int axis = at_.dims[d].axes.back();
      Change change{.kind = ChangeKind::AllGather,
                    .axis = axis,
                    .dimension = static_cast<int>(d),
                    .to = -1,
                    .result = at_};
      change.result.dims[d].axes.pop_back();
      if (change.result.dims[d].axes.empty()) {
        change.result.dims[d].unit = 1;
      }
      const std::optional<std::size_t> e = wanted_at(axis);
      if (e && *e != d) {
        change.kind = ChangeKind::AllToAll;
        change.to = static_cast<int>(*e);
        shard(change.result, *e, axis);
      }
      return change;
    }
    return std::nullopt;
  }

  std::optional<Change> slice() {
    for (std::size_t d = 0; d < to_.dims.size(); ++d) {
      for (const int axis : to_.dims[d].axes) {
        if (!at_.mentions(axis) && wanted_next(d, axis)) {
          Change change{.kind = ChangeKind::Slice,
                        .axis = axis,
                        .dimension = static_cast<int>(d),
                        .to = -1,
                        .result = at_};
          shard(change.result, d, axis);
          return change;
        }
      }
    }
    return std::nullopt;
  }

  Placement at_;
  const Placement& to_;
  const Shape& shape_;
  const Axes& axes_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> changes_between(const Placement& from, const Placement& to, const Shape& shape,
                                    const Axes& axes) {
  return Changer(from, to, shape, axes).run();
}

double elements_moved(const Change& change, const Placement& from, const Shape& shape,
                      const Axes& axes) {
  auto elements = static_cast<double>(shape.element_count());
  for (const Placement::Dim& dim : from.dims) {
    for (const int axis : dim.axes) {
      elements /= axes.at(axis).size;
    }
  }
  const double ranks = axes.at(change.axis).size;
  switch (change.kind) {
    case ChangeKind::Slice:
      return 0;
    case ChangeKind::AllGather:
      return elements * (ranks - 1);
    case ChangeKind::AllToAll:
    case ChangeKind::ReduceScatter:
      return elements * (ranks - 1) / ranks;
    case ChangeKind::AllReduce:
      return 2 * elements * (ranks - 1) / ranks;
  }
  return 0;
}

double elements_moved(const Placement& from, const Placement& to, const Shape& shape,
                      const Axes& axes) {
  double sum = 0;
  Placement at = from;
  for (const Change& change : changes_between(from, to, shape, axes)) {
    sum += elements_moved(change, at, shape, axes);
    at = change.result;
  }
  return sum;
}

}  // namespace trireme::partition
