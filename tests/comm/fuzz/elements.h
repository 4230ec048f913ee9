// From a DType to the C++ type of its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

}  // namespace trireme::fuzz
