#include "measure/bench_data.h"

#include <gtest/gtest.h>

namespace trireme::measure {
namespace {

/// The output of an all-gather of two ranks, computed by hand.
std::vector<std::byte> gathered(std::int64_t count) {
  std::vector<std::byte> output(static_cast<std::size_t>(count));
  for (Rank rank = 0; rank < 2; ++rank) {
    const BenchTask task{Operation::Allgather, DType::U8, count, rank, 2};
    const auto half = static_cast<std::size_t>(task.block());
    BenchData(task).fill(
        {std::span(output).subspan(static_cast<std::size_t>(rank) * half, half), {}});
  }
  return output;
}

TEST(BenchData, AcceptsCorrectResults) {
  const BenchTask task{Operation::Allgather, DType::U8, 100, 0, 2};
  EXPECT_TRUE(BenchData(task).is_right(gathered(100)));
}

TEST(BenchData, FindsOneWrongElementAndSwappedBlocks) {
  const BenchTask task{Operation::Allgather, DType::U8, 100, 0, 2};
  std::vector<std::byte> output = gathered(100);
  output[99] ^= std::byte{1};
  EXPECT_FALSE(BenchData(task).is_right(output));
  output = gathered(100);
  std::swap_ranges(output.begin(), output.begin() + 50, output.begin() + 50);
  EXPECT_FALSE(BenchData(task).is_right(output));
}

TEST(BenchData, InitializesOutputToWrongValues) {
  const BenchTask task{Operation::Allreduce, DType::F32, 10, 1, 2};
  std::vector<std::byte> input(40);
  std::vector<std::byte> output(40);
  const BenchData data(task);
  data.fill({input, output});
  EXPECT_FALSE(data.is_right(output));
}

}  // namespace
}  // namespace trireme::measure
