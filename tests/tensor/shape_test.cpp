#include <random>

#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme {
namespace {

constexpr std::int64_t kBig = std::int64_t{1} << 32;

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().element_count(), 1);
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ((Shape{2, 3}).element_count(), 6);
  EXPECT_EQ((Shape{2, 0, 3}).element_count(), 0);
  EXPECT_EQ((Shape{kBig, kBig / 4}).element_count(), std::int64_t{1} << 62);
}

TEST(Shape, RejectsInvalidDimensions) {
  EXPECT_THROW((Shape{2, -1}), Error);
  EXPECT_THROW((Shape{kBig, kBig}), Error);
  EXPECT_THROW((Shape{kBig, kBig / 2}), Error);
  EXPECT_THROW((Shape{kBig, 0, kBig}), Error) << "accepted, although its strides do not fit";
  EXPECT_THROW((void)(Shape{2, 3}).dim(2), Error);
  EXPECT_THROW((void)(Shape{2, 3}).dim(-1), Error);
}

TEST(Shape, HasRowMajorStrides) {
  EXPECT_EQ((Shape{2, 3, 4}).strides(), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ((Shape{5}).strides(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ((Shape{2, 0, 4}).strides(), (std::vector<std::int64_t>{4, 4, 1}));
  EXPECT_TRUE(Shape().strides().empty());
}

TEST(Shape, PrintsAndParses) {
  EXPECT_EQ(to_text(Shape{2, 3}), "[2,3]");
  EXPECT_EQ(to_text(Shape()), "[]");
  EXPECT_EQ(parse_shape(" [ 2 , 3 ] "), (Shape{2, 3}));
  EXPECT_EQ(parse_shape("[]"), Shape());
  EXPECT_EQ((Shape{7, 9}).dim(1), 9);
}

TEST(Shape, RoundTripsAnyShape) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::int64_t> dims(random() % 6);
    for (std::int64_t& dim : dims) {
      dim = static_cast<std::int64_t>(random() % 1000);
    }
    const Shape shape(dims);
    ASSERT_EQ(parse_shape(to_text(shape)), shape);
  }
}

TEST(Shape, RejectsInvalidText) {
  for (const char* text : {"", "[", "]", "2,3", "[2,3", "2,3]", "[2,,3]", "[,]", "[2.5]", "[a]",
                           "[-1]", "[2 3]", "[99999999999999999999]", "[4294967296,4294967296]"}) {
    EXPECT_THROW((void)parse_shape(text), Error) << text;
  }
}

}  // namespace
}  // namespace trireme
