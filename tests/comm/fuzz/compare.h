// Compares the result of a call with the expected one.
//
// Callable from any thread.
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

/// `got` against the expected output of the rank at this place. Random values whose order of
/// combining is open may be off by rounding; everything else must match bit for bit.
[[nodiscard]] Differences compare_output(const CallView& view, Rank place,
                                         std::span<const std::byte> got);

/// `got` against elements begin, begin + 1, … of that rank's contribution, bit for bit.
[[nodiscard]] Differences compare_input(const CallView& view, Rank place, std::int64_t begin,
                                        std::span<const std::byte> got);

}  // namespace trireme::fuzz
