// What a rank sends in a collective that runs by the ring algorithm, to the byte. Callable from any thread.
#pragma once

#include <cstdint>

#include "trireme/op.h"

namespace trireme {

/// Bytes that the rank at place `index` of the group sends: as bytes_sent(), but exact where blocks differ in length. Of
/// each round of an all-gather or an all-reduce a rank sends all blocks but one.
[[nodiscard]] double ring_bytes_sent(const Signature& exchange, std::int64_t index);

}  // namespace trireme
