// The exact bytes that a rank sends in a ring collective. Callable from any thread.
#pragma once

#include <cstdint>

#include "trireme/op.h"

namespace trireme {

/// Bytes that the rank at place `index` of the group sends: as bytes_sent(), but exact where blocks differ in length. Of
/// each round of an all-gather or an all-reduce a rank sends all blocks but one.
[[nodiscard]] double ring_bytes_sent(const Signature& exchange, std::int64_t index);

}  // namespace trireme
