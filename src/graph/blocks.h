// How a dimension is sharded over ranks: evenly, in pieces of `unit` elements, with one more for the first ranks if the
// number of pieces is not divisible. Callable from any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trireme/tensor.h"

namespace trireme {

/// The block of part `index` of `parts`; `size` is a multiple of `unit`.
[[nodiscard]] constexpr IndexRange block_of(std::int64_t size, std::int64_t unit,
                                            std::int64_t parts, std::int64_t index) {
  const std::int64_t pieces = size / unit;
  const std::int64_t least = pieces / parts;
  const std::int64_t more = pieces % parts;
  return {.begin = unit * (least * index + std::min(index, more)),
          .length = unit * (least + (index < more ? 1 : 0))};
}

}  // namespace trireme
