#include "trireme/placement.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/blocks.h"

namespace trireme {

std::string_view to_text(Merge merge) {
  switch (merge) {
    case Merge::Sum:
      return "sum";
    case Merge::Maximum:
      return "max";
  }
  return "?";
}

int find_axis(const Axes& axes, std::string_view name) {
  const auto it = std::ranges::find(axes, name, &MeshAxis::name);
  return it == axes.end() ? -1 : static_cast<int>(it - axes.begin());
}

Placement Placement::replicated(int rank) {
  Placement placement;
  placement.dims.resize(rank);
  return placement;
}

bool Placement::mentions(int axis) const {
  return partial.contains(axis) || dimension_of(axis) >= 0;
}

int Placement::dimension_of(int axis) const {
  const auto it = std::ranges::find_if(
      dims, [&](const Dim& dim) { return std::ranges::find(dim.axes, axis) != dim.axes.end(); });
  return it == dims.end() ? -1 : static_cast<int>(it - dims.begin());
}

std::string to_text(const Placement& placement, const Axes& axes) {
  const auto name = [&](int axis) { return axes.at(axis).name; };
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < placement.dims.size(); ++d) {
    const Placement::Dim& dim = placement.dims[d];
    for (const int axis : dim.axes) {
      parts.push_back(dim.unit == 1 ? fmt::format("{}:{}", d, name(axis))
                                    : fmt::format("{}:{}/{}", d, name(axis), dim.unit));
    }
  }
  std::string text = fmt::format("[{}", fmt::join(parts, ","));
  for (const auto& [axis, merge] : placement.partial) {
    text += fmt::format("|{}:{}", to_text(merge), name(axis));
  }
  return text + "]";
}

Placement::Dim canonical(Placement::Dim dim, std::int64_t size, const Axes& axes) {
  std::int64_t parts = 1;
  for (const int axis : dim.axes) {
    parts *= axes.at(axis).size;
  }
  if (size / dim.unit % parts == 0) {
    dim.unit = 1;
  }
  return dim;
}

Placement canonical(Placement placement, const Shape& shape, const Axes& axes) {
  for (std::size_t d = 0; d < placement.dims.size(); ++d) {
    placement.dims[d] = canonical(std::move(placement.dims[d]), shape.dims().at(d), axes);
  }
  return placement;
}

IndexRange block_at(const Placement::Dim& dim, std::int64_t size, const Axes& axes,
                    std::span<const int> coordinates, std::size_t levels) {
  IndexRange all{.begin = 0, .length = size};
  for (std::size_t i = 0; i < std::min(levels, dim.axes.size()); ++i) {
    const int axis = dim.axes[i];
    const IndexRange block = block_of(all.length, dim.unit, axes.at(axis).size, coordinates[axis]);
    all = {.begin = all.begin + block.begin, .length = block.length};
  }
  return all;
}

Shape shape_at(const Placement& placement, const Shape& shape, const Axes& axes,
               std::span<const int> coordinates) {
  std::vector<std::int64_t> dims = shape.dims();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    dims[d] = block_at(placement.dims.at(d), dims[d], axes, coordinates).length;
  }
  return Shape(std::move(dims));
}

}  // namespace trireme
