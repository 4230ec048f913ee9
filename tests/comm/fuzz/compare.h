// Compares what came out of a call with what must.
//
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "shape.h"

namespace trireme::fuzz {

/// How many elements are wrong, and the first of them in words.
struct Differences {
  std::int64_t count = 0;
  std::string first;
};

/// `got` against the output that the rank at this place must have. Random values whose order of
/// combining is open may be off by what rounding can do; everything else counts bit for bit.
[[nodiscard]] Differences compare_output(const CallView& view, Rank place,
                                         std::span<const std::byte> got);

/// `got` against elements begin, begin + 1, … of what that rank contributes, bit for bit.
[[nodiscard]] Differences compare_input(const CallView& view, Rank place, std::int64_t begin,
                                        std::span<const std::byte> got);

}  // namespace trireme::fuzz
