// The type that costs assume for computing: 16 bits.
#pragma once

namespace trireme {

/// Bytes of an activation, and of a parameter as computed with.
inline constexpr double kWord = 2;

}  // namespace trireme
