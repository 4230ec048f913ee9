// The numbers that ranks contribute where a test knows the results.
#pragma once

#include <cstdint>
#include <type_traits>

#include "trireme/comm.h"
#include "trireme/tensor.h"

namespace trireme::test {

/// Rank r's element i: small integers, so that every sum is exact in every type; even smaller ones for 16-bit floats.
template <class T>
T value_of(Rank rank, std::int64_t i) {
  const auto number = static_cast<int>((rank * 3 + i * 7 + i / 11) % 5);
  if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(static_cast<float>(number));
  } else {
    return static_cast<T>(number);
  }
}

}  // namespace trireme::test
