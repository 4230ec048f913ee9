// From a DType to the C++ type of its elements, and to the type in which they are combined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme::fuzz {

/// Calls visit(T{}) with the C++ type of the dtype.
template <class Visitor>
decltype(auto) with_type(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::F32:
      return visit(float{});
    case DType::F64:
      return visit(double{});
    case DType::F16:
      return visit(Float16{});
    case DType::BF16:
      return visit(BFloat16{});
    case DType::I8:
      return visit(std::int8_t{});
    case DType::U8:
      return visit(std::uint8_t{});
    case DType::I32:
      return visit(std::int32_t{});
    case DType::I64:
      return visit(std::int64_t{});
  }
  throw Error(ErrorKind::Usage, "unknown dtype");
}

template <class T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <class T>
std::span<const T> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// What partial results are kept in.
template <class T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<Float16> {
  using Type = float;
};
template <>
struct Wide<BFloat16> {
  using Type = float;
};
template <class T>
using WideOf = typename Wide<T>::Type;

/// Exact.
template <class T>
WideOf<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return to_f32(value);
  } else {
    return value;
  }
}
/// Rounds to the nearest.
template <class T>
T narrow(WideOf<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_f16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bf16(value);
  } else {
    return value;
  }
}

}  // namespace trireme::fuzz
