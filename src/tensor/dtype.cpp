#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
  bool floating;
};

constexpr std::array<DTypeRow, kDTypes.size()> kRows{{{DType::F32, "f32", 4, true},
                                                      {DType::F64, "f64", 8, true},
                                                      {DType::F16, "f16", 2, true},
                                                      {DType::BF16, "bf16", 2, true},
                                                      {DType::I8, "i8", 1, false},
                                                      {DType::U8, "u8", 1, false},
                                                      {DType::I32, "i32", 4, false},
                                                      {DType::I64, "i64", 8, false}}};

const DTypeRow& row_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  TRIREME_CHECK(index < kRows.size() && kRows.at(index).dtype == dtype, "rows follow the enum");
  return kRows.at(index);
}

/// value / 2^shift to the nearest integer, ties to even. 0 < shift < 32.
std::uint32_t shift_to_nearest_even(std::uint32_t value, unsigned shift) {
  const std::uint32_t half = 1U << (shift - 1);
  const std::uint32_t rest = value & ((half << 1) - 1);
  const std::uint32_t quotient = value >> shift;
  const bool up = rest > half || (rest == half && (quotient & 1U) != 0);
  return quotient + (up ? 1 : 0);
}

constexpr std::uint32_t kF32Infinity = 0x7f800000;
constexpr std::uint32_t kF32QuietBit = 0x00400000;

/// The bits, without the sign, of the binary16 nearest to the positive finite float with these
/// bits.
std::uint32_t magnitude_to_f16(std::uint32_t magnitude) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr std::uint32_t kHalfSmallest = 0x33000000;    // 2^-25: ties to zero
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  constexpr std::uint32_t kInfinity = 0x7c00;
  if (magnitude >= kSmallestNormal) {
    // A carry out of the fraction correctly lands in the exponent, up to and including infinity.
    return std::min(shift_to_nearest_even(magnitude - kRebias, 13), kInfinity);
  }
  if (magnitude <= kHalfSmallest) {
    return 0;
  }
  // A subnormal counts units of 2^-24; the float is fraction * 2^(exponent - 150).
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t fraction = (magnitude & 0x007fffffU) | 0x00800000U;
  return shift_to_nearest_even(fraction, 126 - exponent);
}

}  // namespace

std::string_view to_text(DType dtype) {
  return row_of(dtype).name;
}

DType parse_dtype(std::string_view text) {
  std::vector<std::string> names;
  for (const DTypeRow& row : kRows) {
    if (row.name == text) {
      return row.dtype;
    }
    names.emplace_back(row.name);
  }
  throw Error(ErrorKind::Usage,
              fmt::format("'{}' is no element type; use {}", text, list_words(names, "or")));
}

Bytes size_of(DType dtype) {
  return {row_of(dtype).bytes};
}

bool is_float(DType dtype) {
  return row_of(dtype).floating;
}

float to_f32(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t fraction = value.bits & 0x3ffU;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = fraction != 0 ? kF32QuietBit : 0;
    return std::bit_cast<float>(sign | kF32Infinity | (fraction << 13) | quiet);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

float to_f32(BFloat16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  const bool nan = (bits & 0x7fffffffU) > kF32Infinity;
  return std::bit_cast<float>(bits | (nan ? kF32QuietBit : 0));
}

Float16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > kF32Infinity) {
    return {static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU))};
  }
  return {static_cast<std::uint16_t>(sign | magnitude_to_f16(magnitude))};
}

BFloat16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > kF32Infinity) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>(shift_to_nearest_even(bits, 16))};
}

}  // namespace trireme
