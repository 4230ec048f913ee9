// Inputs: every rank's contribution to a call.
//
// They are pure functions of the step's key, the place and the index, so that any rank can compute any other's. Where
// values are Exact they are chosen so that no order of combining rounds: integers wrap, floats are small integers or
// powers of two. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shape.h"

namespace trireme::fuzz {

/// Mixes two numbers into one that looks random.
[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b);

/// Elements begin, begin + 1, … of the contribution of the rank at this place.
void fill_input(const CallView& view, Rank place, std::int64_t begin, std::span<std::byte> out);

}  // namespace trireme::fuzz
