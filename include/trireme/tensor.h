// Tensors on the host: element types, shapes and buffers.
//
// All functions may be called from any thread; a HostBuffer is written by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/units.h"

namespace trireme {

/// The type of a tensor's elements.
enum class DType : std::uint8_t { F32, F64, F16, BF16, I8, U8, I32, I64 };

inline constexpr std::array<DType, 8> kDTypes{DType::F32, DType::F64, DType::F16, DType::BF16,
                                              DType::I8,  DType::U8,  DType::I32, DType::I64};

/// "f32", "bf16", …; parse_dtype reads it back.
[[nodiscard]] std::string_view to_text(DType dtype);

/// Throws Error(Usage) listing the valid names.
[[nodiscard]] DType parse_dtype(std::string_view text);

/// Bytes of one element.
[[nodiscard]] Bytes size_of(DType dtype);

[[nodiscard]] bool is_float(DType dtype);

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. Equality compares bits.
struct Float16 {
  std::uint16_t bits = 0;
  friend bool operator==(const Float16&, const Float16&) = default;
};

/// The upper half of a float: 1 sign, 8 exponent, 7 fraction bits. Equality compares bits.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(const BFloat16&, const BFloat16&) = default;
};

/// Exact. A NaN stays a NaN with its sign and payload, made quiet.
[[nodiscard]] float to_f32(Float16 value);
[[nodiscard]] float to_f32(BFloat16 value);

/// The nearest value, ties to even; overflow becomes infinity. A NaN stays a NaN with its sign and
/// the upper bits of its payload, made quiet.
[[nodiscard]] Float16 to_f16(float value);
[[nodiscard]] BFloat16 to_bf16(float value);

/// The sizes of a tensor's dimensions, outermost first. Immutable. A dimension may be 0; rank 0
/// means one element.
class Shape {
 public:
  Shape() = default;
  /// Throws Error(Usage) on a negative dimension, or if the number of elements (zeros counted as
  /// ones, so that the strides exist too) does not fit in 63 bits.
  explicit Shape(std::vector<std::int64_t> dims);
  Shape(std::initializer_list<std::int64_t> dims);

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(dims_.size()); }
  [[nodiscard]] const std::vector<std::int64_t>& dims() const noexcept { return dims_; }
  /// Throws Error(Usage) unless 0 <= axis < rank().
  [[nodiscard]] std::int64_t dim(int axis) const;
  [[nodiscard]] std::int64_t element_count() const noexcept;
  /// The distance in elements between neighbors along each dimension, row-major: [2,3,4] has
  /// strides 12, 4, 1.
  [[nodiscard]] std::vector<std::int64_t> strides() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> dims_;
};

/// The indices begin, begin + 1, … of a dimension: `length` of them.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t length = 0;
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// "[2,3]"; rank 0 is "[]".
[[nodiscard]] std::string to_text(const Shape& shape);

/// Parses "[2,3]"; blanks around numbers are allowed. Throws Error(Usage) on anything else.
[[nodiscard]] Shape parse_shape(std::string_view text);

namespace detail {
template <class T>
struct DTypeOf;  // No definition: not an element type.
template <DType kValue>
struct IsDType {
  static constexpr DType kDType = kValue;
};
template <>
struct DTypeOf<float> : IsDType<DType::F32> {};
template <>
struct DTypeOf<double> : IsDType<DType::F64> {};
template <>
struct DTypeOf<Float16> : IsDType<DType::F16> {};
template <>
struct DTypeOf<BFloat16> : IsDType<DType::BF16> {};
template <>
struct DTypeOf<std::int8_t> : IsDType<DType::I8> {};
template <>
struct DTypeOf<std::uint8_t> : IsDType<DType::U8> {};
template <>
struct DTypeOf<std::int32_t> : IsDType<DType::I32> {};
template <>
struct DTypeOf<std::int64_t> : IsDType<DType::I64> {};
}  // namespace detail

/// The DType of a C++ element type: kDTypeOf<float> is DType::F32.
template <class T>
inline constexpr DType kDTypeOf = detail::DTypeOf<T>::kDType;

/// Owns the elements of one tensor on the host, aligned to kAlignment, zero-initialized. Move-only;
/// a moved-from buffer is empty. May be empty.
class HostBuffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  HostBuffer() = default;
  /// Throws Error(Usage) if `elements` is negative or its bytes do not fit in 63 bits,
  /// Error(System) if memory is short.
  HostBuffer(DType dtype, std::int64_t elements);
  ~HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept;
  HostBuffer& operator=(HostBuffer&& other) noexcept;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  [[nodiscard]] HostBuffer clone() const;

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }
  [[nodiscard]] Bytes bytes() const noexcept;

  /// The raw memory; valid until the buffer is moved from or destroyed.
  [[nodiscard]] std::span<std::byte> raw() noexcept;
  [[nodiscard]] std::span<const std::byte> raw() const noexcept;

  /// The elements as T, valid as long as raw(). Throws Error(Usage) if T is not the buffer's
  /// element type.
  template <class T>
  [[nodiscard]] std::span<T> as() {
    require(kDTypeOf<T>);
    return {reinterpret_cast<T*>(data_.get()), static_cast<std::size_t>(elements_)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    require(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(elements_)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };

  void require(DType requested) const;

  DType dtype_ = DType::F32;
  std::int64_t elements_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace trireme
