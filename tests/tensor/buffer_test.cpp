#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

TEST(HostBuffer, IsAlignedAndZeroForEveryType) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t elements : {1, 7, 64, 1000}) {
      // Dirty the heap first, so that zeros are not accidental.
      {
        HostBuffer dirt(dtype, elements);
        std::ranges::fill(dirt.raw(), std::byte{0xff});
      }
      HostBuffer buffer(dtype, elements);
      EXPECT_EQ(buffer.bytes().count, elements * size_of(dtype).count);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.raw().data()) % HostBuffer::kAlignment, 0U);
      EXPECT_TRUE(std::all_of(buffer.raw().begin(), buffer.raw().end(),
                              [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST(HostBuffer, RejectsAccessAsAnotherType) {
  HostBuffer buffer(DType::F32, 3);
  buffer.as<float>()[2] = 1.5F;
  const HostBuffer& same = buffer;
  EXPECT_EQ(same.as<float>()[2], 1.5F);
  EXPECT_EQ(same.as<float>().size(), 3U);
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)buffer.as<std::int32_t>(); }),
            "a buffer of f32 cannot be read as i32");
}

template <class T>
void expect_accepts(DType dtype) {
  EXPECT_EQ(HostBuffer(dtype, 2).as<T>().size(), 2U);
}

TEST(HostBuffer, MapsEveryTypeToItsCppType) {
  expect_accepts<float>(DType::F32);
  expect_accepts<double>(DType::F64);
  expect_accepts<Float16>(DType::F16);
  expect_accepts<BFloat16>(DType::BF16);
  expect_accepts<std::int8_t>(DType::I8);
  expect_accepts<std::uint8_t>(DType::U8);
  expect_accepts<std::int32_t>(DType::I32);
  expect_accepts<std::int64_t>(DType::I64);
}

TEST(HostBuffer, MayBeEmpty) {
  HostBuffer none;
  EXPECT_EQ(none.elements(), 0);
  HostBuffer zero(DType::I64, 0);
  EXPECT_TRUE(zero.as<std::int64_t>().empty());
  EXPECT_TRUE(zero.clone().raw().empty());
}

// The moved-from state is specified, so the test checks it.
// NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
TEST(HostBuffer, MoveLeavesSourceEmpty) {
  HostBuffer first(DType::I32, 4);
  first.as<std::int32_t>()[0] = 42;
  const std::byte* data = first.raw().data();
  HostBuffer second(std::move(first));
  EXPECT_EQ(second.raw().data(), data);
  EXPECT_EQ(first.elements(), 0);
  EXPECT_TRUE(first.raw().empty());
  HostBuffer third(DType::F64, 9);
  third = std::move(second);
  EXPECT_EQ(third.as<std::int32_t>()[0], 42);
  EXPECT_EQ(second.elements(), 0);
}
// NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)

TEST(HostBuffer, CloneIsIndependent) {
  HostBuffer original(DType::I32, 2);
  original.as<std::int32_t>()[1] = 5;
  HostBuffer copy = original.clone();
  copy.as<std::int32_t>()[1] = 6;
  EXPECT_EQ(original.as<std::int32_t>()[1], 5);
  EXPECT_EQ(copy.as<std::int32_t>()[1], 6);
}

TEST(HostBuffer, RejectsInvalidSizes) {
  EXPECT_THROW(HostBuffer(DType::F32, -1), Error);
  EXPECT_THROW(HostBuffer(DType::F64, std::numeric_limits<std::int64_t>::max() / 4), Error);
}

}  // namespace
}  // namespace trireme
