// Reference: the expected results of operations that combine, computed in the simplest way.
//
// Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shape.h"
#include "trireme/comm.h"

namespace trireme::fuzz {

/// The combination of elements begin, begin + 1, … of all inputs, by the balanced tree over the ranks
/// that Order::Fixed promises.
void fill_combined(const CallView& view, std::int64_t begin, std::span<std::byte> out);

/// The reduction of calls with Combiner::User. Static lifetime.
[[nodiscard]] const UserReduction& user_reduction(DType dtype);

}  // namespace trireme::fuzz
