// What pack_ternary (ops/pack.cpp) and its kernels share.
#pragma once

namespace trireme {

/// Elements below this share of the mean magnitude become 0.
inline constexpr double kTernaryThreshold = 0.7;

}  // namespace trireme
