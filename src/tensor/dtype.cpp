#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "base/text.h"
#include "tensor/half_bits.h"
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
  const std::size_t index = position_of(dtype);
  TRIREME_CHECK(index < kRows.size() && kRows.at(index).dtype == dtype, "rows follow the enum");
  return kRows.at(index);
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
              fmt::format("unknown element type '{}'; use {}", text, list_words(names, "or")));
}

Bytes size_of(DType dtype) {
  return {row_of(dtype).bytes};
}

bool is_float(DType dtype) {
  return row_of(dtype).floating;
}

float to_f32(Float16 value) {
  return half::widen(value);
}

float to_f32(BFloat16 value) {
  const auto bits = std::bit_cast<std::uint32_t>(half::widen(value));
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return std::bit_cast<float>(bits | (nan ? 0x00400000U : 0U));
}

Float16 to_f16(float value) {
  return half::narrow_to_f16(value);
}

BFloat16 to_bf16(float value) {
  return half::narrow_to_bf16(value);
}

}  // namespace trireme
