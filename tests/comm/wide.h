// The type in which elements are combined: f32 for bf16 and f16, else their own.
#pragma once

#include <type_traits>

#include "trireme/tensor.h"

namespace trireme {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

/// Exact.
template <class T>
Wide<T> widen(T value) {
  if constexpr (kIsHalf<T>) {
    return to_f32(value);
  } else {
    return value;
  }
}

/// Rounds to the nearest.
template <class T>
T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

}  // namespace trireme
