#include "tensor/half.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Half, IsBf16OrF16) {
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(is_half(dtype), dtype == DType::BF16 || dtype == DType::F16) << to_text(dtype);
  }
}

/// Every finite pattern, from and to odd addresses.
TEST(Half, WidensAndNarrowsArraysElementByElement) {
  constexpr std::size_t kPatterns = 0x7C00;
  for (const DType dtype : {DType::BF16, DType::F16}) {
    std::vector<std::byte> halves(2 * kPatterns + 1);
    for (std::uint16_t pattern = 0; pattern < kPatterns; ++pattern) {
      std::memcpy(halves.data() + 1 + 2 * std::size_t{pattern}, &pattern, 2);
    }
    const std::span<const std::byte> odd(halves.data() + 1, 2 * kPatterns);
    std::vector<std::byte> wide(4 * kPatterns + 1);
    widen_halves(dtype, odd, wide.data() + 1);
    for (std::uint16_t pattern = 0; pattern < kPatterns; ++pattern) {
      float value = 0;
      std::memcpy(&value, wide.data() + 1 + 4 * std::size_t{pattern}, 4);
      ASSERT_EQ(value, dtype == DType::F16 ? to_f32(Float16{pattern}) : to_f32(BFloat16{pattern}));
    }
    std::vector<std::byte> back(halves.size());
    narrow_to_halves(dtype, wide.data() + 1, std::span(back).subspan(1));
    EXPECT_EQ(back, halves);
  }
}

}  // namespace
}  // namespace trireme
