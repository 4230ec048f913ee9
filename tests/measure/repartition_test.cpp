// From each layout of a matrix to each other one: the bytes and times predicted, and the same executed for real.
#include "trireme/repartition.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/cpu_device.h"
#include "trireme/repartition_run.h"

namespace trireme::predict {
namespace {

std::unique_ptr<Device> one_thread() {
  return make_cpu_device({.threads = 1, .pinned = false});
}

/// Sizes that p divides, that it does not, and with fewer rows than ranks.
const std::vector<Shape> kShapes{Shape{8, 24}, Shape{7, 10}, Shape{3, 5}, Shape{1, 1}};

TEST(Repartition, MovesPredictedBytesAndIsCorrect) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const Shape& shape : kShapes) {
      for (const MatrixLayout from : kLayouts) {
        for (const MatrixLayout to : kLayouts) {
          const Repartition predicted = repartition({DType::F64, shape}, from, to, ranks);
          const measure::RepartitionRun run = measure::run_repartition(predicted, one_thread);
          EXPECT_EQ(run.sent, predicted.sent)
              << to_text(from) << " to " << to_text(to) << " on " << ranks;
          EXPECT_EQ(run.largest_error, 0)
              << to_text(from) << " to " << to_text(to) << " on " << ranks;
        }
      }
    }
  }
}

/// On 4 ranks, a matrix of 1 MiB, alpha 1 us, beta 1 ns per byte.
Repartition mebibyte(MatrixLayout from, MatrixLayout to) {
  return repartition({DType::F32, Shape{512, 512}}, from, to, 4,
                     CostModel::uniform({1e-6}, {1e-9}, {1e-10}));
}

TEST(Repartition, CostMatchesFormulas) {
  constexpr double kBytes = 1 << 20;
  EXPECT_EQ(mebibyte(MatrixLayout::Replicated, MatrixLayout::Row).seconds.count, 0);
  EXPECT_EQ(mebibyte(MatrixLayout::Column, MatrixLayout::Partial).seconds.count, 0);
  EXPECT_NEAR(mebibyte(MatrixLayout::Row, MatrixLayout::Replicated).seconds.count, 7.894e-4, 5e-8);
  EXPECT_NEAR(mebibyte(MatrixLayout::Column, MatrixLayout::Replicated).seconds.count, 7.894e-4,
              5e-8);
  EXPECT_NEAR(mebibyte(MatrixLayout::Row, MatrixLayout::Column).seconds.count, 1.996e-4, 5e-8);
  EXPECT_NEAR(mebibyte(MatrixLayout::Column, MatrixLayout::Row).seconds.count, 1.996e-4, 5e-8);
  EXPECT_NEAR(mebibyte(MatrixLayout::Partial, MatrixLayout::Row).seconds.count,
              3e-6 + 0.75 * kBytes * 1.1e-9, 1e-12);
  EXPECT_NEAR(mebibyte(MatrixLayout::Partial, MatrixLayout::Replicated).seconds.count,
              6e-6 + 0.75 * kBytes * 2.1e-9, 1e-12);
}

TEST(Repartition, SendsOnlyMissingElements) {
  constexpr std::int64_t kBytes = 1 << 20;
  const auto each = [](std::int64_t bytes) { return std::vector<std::int64_t>(4, bytes); };
  EXPECT_EQ(mebibyte(MatrixLayout::Replicated, MatrixLayout::Column).sent, each(0));
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Replicated).sent, each(kBytes * 3 / 4));
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Column).sent, each(kBytes / 4 * 3 / 4));
  EXPECT_EQ(mebibyte(MatrixLayout::Partial, MatrixLayout::Column).sent, each(kBytes * 3 / 4));
  EXPECT_EQ(mebibyte(MatrixLayout::Partial, MatrixLayout::Replicated).sent, each(kBytes * 3 / 2));
}

TEST(Repartition, NamesItsCollective) {
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Row).op, "");
  EXPECT_EQ(mebibyte(MatrixLayout::Replicated, MatrixLayout::Row).op, "slice");
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Replicated).op, "all_gather");
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Column).op, "all_to_all");
  EXPECT_EQ(mebibyte(MatrixLayout::Partial, MatrixLayout::Replicated).op, "all_reduce");
  EXPECT_EQ(mebibyte(MatrixLayout::Partial, MatrixLayout::Row).op, "reduce_scatter");
  EXPECT_EQ(mebibyte(MatrixLayout::Row, MatrixLayout::Partial).op, "pad");
}

TEST(Repartition, RejectsNonMatrices) {
  EXPECT_THROW(
      (void)repartition({DType::F32, Shape{2, 3, 4}}, MatrixLayout::Row, MatrixLayout::Column, 2),
      Error);
  EXPECT_THROW(
      (void)repartition({DType::I32, Shape{2, 3}}, MatrixLayout::Row, MatrixLayout::Column, 2),
      Error);
  EXPECT_THROW((void)parse_layout("diagonal"), Error);
}

}  // namespace
}  // namespace trireme::predict
