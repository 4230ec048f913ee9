#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(parse_dtype(to_text(dtype)), dtype);
  }
}

TEST(DType, KnowsSizesAndKinds) {
  EXPECT_EQ(size_of(DType::F64), Bytes{8});
  EXPECT_EQ(size_of(DType::I64), Bytes{8});
  EXPECT_EQ(size_of(DType::F32), Bytes{4});
  EXPECT_EQ(size_of(DType::I32), Bytes{4});
  EXPECT_EQ(size_of(DType::F16), Bytes{2});
  EXPECT_EQ(size_of(DType::BF16), Bytes{2});
  EXPECT_EQ(size_of(DType::I8), Bytes{1});
  EXPECT_EQ(size_of(DType::U8), Bytes{1});
  EXPECT_TRUE(is_float(DType::BF16));
  EXPECT_FALSE(is_float(DType::U8));
}

TEST(DType, UnknownNameErrorListsValidNames) {
  EXPECT_EQ(error_message(ErrorKind::Usage, [] { (void)parse_dtype("float"); }),
            "unknown element type 'float'; use f32, f64, f16, bf16, i8, u8, i32 or i64");
}

/// The value of a 16-bit pattern, by the definition of the format and in double arithmetic.
double meaning(std::uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) {
    return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  }
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

template <class Half>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int kFractionBits = 10;
  static constexpr std::uint16_t kInfinityBits = 0x7c00;
  static constexpr std::uint16_t kQuietBit = 0x0200;
  static Float16 from(float value) { return to_f16(value); }
};
template <>
struct Format<BFloat16> {
  static constexpr int kFractionBits = 7;
  static constexpr std::uint16_t kInfinityBits = 0x7f80;
  static constexpr std::uint16_t kQuietBit = 0x0040;
  static BFloat16 from(float value) { return to_bf16(value); }
};

template <class Half>
class HalfFormats : public testing::Test {};
using Halves = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(HalfFormats, Halves);

TYPED_TEST(HalfFormats, EveryPatternDecodesCorrectlyAndRoundTrips) {
  using F = Format<TypeParam>;
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const TypeParam half{static_cast<std::uint16_t>(pattern)};
    const float value = to_f32(half);
    const double expected = meaning(half.bits, F::kFractionBits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << pattern;
      ASSERT_EQ(F::from(value).bits, pattern | F::kQuietBit) << pattern;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << pattern;
    ASSERT_EQ(std::signbit(value), (pattern & 0x8000) != 0) << pattern;
    ASSERT_EQ(F::from(value), half) << pattern;
  }
}

/// Between two neighbors the midpoint rounds to the even one, and the floats around it to the
/// nearer one.
TYPED_TEST(HalfFormats, RoundsToNearestEvenBetweenAllNeighbors) {
  using F = Format<TypeParam>;
  for (std::uint16_t lower = 0; lower < F::kInfinityBits; ++lower) {
    const auto upper = static_cast<std::uint16_t>(lower + 1);
    const double low = meaning(lower, F::kFractionBits);
    // The step above the largest finite value is as wide as the one below it.
    const double high =
        upper == F::kInfinityBits
            ? 2 * low - meaning(static_cast<std::uint16_t>(lower - 1), F::kFractionBits)
            : meaning(upper, F::kFractionBits);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2) << "the midpoint is not a float";
    const std::uint16_t even = lower % 2 == 0 ? lower : upper;
    for (const std::uint16_t sign : {0x0000, 0x8000}) {
      const float s = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(F::from(s * middle).bits, sign | even) << lower;
      ASSERT_EQ(F::from(s * std::nextafter(middle, 0.0F)).bits, sign | lower) << lower;
      ASSERT_EQ(F::from(s * std::nextafter(middle, kInfinity)).bits, sign | upper) << lower;
    }
  }
}

TYPED_TEST(HalfFormats, KeepsInfinityAndSignOfNaN) {
  using F = Format<TypeParam>;
  EXPECT_EQ(F::from(kInfinity).bits, F::kInfinityBits);
  EXPECT_EQ(F::from(-kInfinity).bits, 0x8000 | F::kInfinityBits);
  // A NaN whose payload is in the truncated bits must not turn into infinity.
  EXPECT_EQ(F::from(std::bit_cast<float>(0x7f800001U)).bits, F::kInfinityBits | F::kQuietBit);
  EXPECT_EQ(F::from(std::bit_cast<float>(0xff800001U)).bits,
            0x8000 | F::kInfinityBits | F::kQuietBit);
  EXPECT_EQ(F::from(std::numeric_limits<float>::max()).bits, F::kInfinityBits);
  EXPECT_EQ(F::from(0.0F).bits, 0);
  EXPECT_EQ(F::from(-0.0F).bits, 0x8000);
}

TEST(Float16, RoundsLandmarkValues) {
  EXPECT_EQ(to_f16(1.0F).bits, 0x3c00);
  EXPECT_EQ(to_f16(65504.0F).bits, 0x7bff);
  EXPECT_EQ(to_f16(65519.996F).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_f16(0x1p-24F).bits, 0x0001);
  EXPECT_EQ(to_f16(0x1p-25F).bits, 0x0000);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
}

TEST(BFloat16, RoundsLandmarkValues) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
}

}  // namespace
}  // namespace trireme
