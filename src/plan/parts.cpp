#include "trireme/parts.h"

#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

/// Calls f(offset in the whole, offset in the part, bytes) for each run of bytes that is contiguous in both.
template <class F>
void for_each_run(const Part& part, F f) {
  const std::vector<std::int64_t>& dims = part.type.shape.dims();
  const std::int64_t width = size_of(part.type.dtype).count;
  const bool by_micro = part.micro >= 0 && part.placement.mentions(part.micro);
  const int batches = by_micro ? part.axes.at(part.micro).size : 1;
  std::vector<int> coordinates = part.coordinates;
  std::int64_t at = 0;
  for (int m = 0; m < batches; ++m) {
    if (by_micro) {
      coordinates[part.micro] = m;
    }
    std::vector<IndexRange> blocks;
    std::int64_t rows = 1;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      blocks.push_back(block_at(part.placement.dims.at(d), dims[d], part.axes, coordinates));
      rows *= d + 1 < dims.size() ? blocks[d].length : 1;
    }
    const std::int64_t run = dims.empty() ? 1 : blocks.back().length;
    const std::vector<std::int64_t> strides = part.type.shape.strides();
    for (std::int64_t row = 0; row < rows && run > 0; ++row) {
      std::int64_t rest = row;
      std::int64_t whole = dims.empty() ? 0 : blocks.back().begin;
      for (std::size_t d = dims.empty() ? 0 : dims.size() - 1; d-- > 0;) {
        whole += (rest % blocks[d].length + blocks[d].begin) * strides[d];
        rest /= blocks[d].length;
      }
      f(whole * width, at * width, run * width);
      at += run;
    }
  }
}

void copy_run(const std::byte* from, std::byte* to, std::int64_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace

Shape shape_of(const Part& part) {
  std::vector<std::int64_t> dims =
      shape_at(part.placement, part.type.shape, part.axes, part.coordinates).dims();
  const int d = part.micro < 0 ? -1 : part.placement.dimension_of(part.micro);
  if (d >= 0) {
    std::vector<int> coordinates = part.coordinates;
    std::int64_t& size = dims[d];
    size = 0;
    for (int m = 0; m < part.axes[part.micro].size; ++m) {
      coordinates[part.micro] = m;
      size +=
          block_at(part.placement.dims[d], part.type.shape.dim(d), part.axes, coordinates).length;
    }
  }
  return Shape(std::move(dims));
}

void take_part(const Part& part, std::span<const std::byte> whole, std::span<std::byte> to) {
  TRIREME_CHECK(static_cast<std::int64_t>(whole.size()) == size_of(part.type).count, "whole");
  for_each_run(part, [&](std::int64_t from, std::int64_t at, std::int64_t bytes) {
    copy_run(whole.data() + from, to.data() + at, bytes);
  });
}

void put_part(const Part& part, std::span<const std::byte> from, std::span<std::byte> whole) {
  TRIREME_CHECK(static_cast<std::int64_t>(whole.size()) == size_of(part.type).count, "whole");
  for_each_run(part, [&](std::int64_t to, std::int64_t at, std::int64_t bytes) {
    copy_run(from.data() + at, whole.data() + to, bytes);
  });
}

}  // namespace trireme
