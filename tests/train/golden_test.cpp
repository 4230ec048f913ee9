// Loss curves compared with the reviewed ones in golden/*.txt. To regenerate them after an intended change:
// TRIREME_MAKE_GOLDEN=1 build/release/tests/train/train_test --gtest_filter='*Golden*'
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/curves.h"

namespace trireme::train {
namespace {

/// The files have 12 digits, to which the f64 curves of all instruction sets agreed. This leaves room for other
/// processors and compilers; a wrong formula is off by much more.
constexpr double kTolerance = 1e-8;

std::string golden_path(const std::string& model) {
  return fmt::format("{}/{}.txt", TRIREME_GOLDEN_FOLDER, model);
}

std::vector<double> read_curve(const std::string& path) {
  std::ifstream file(path);
  std::vector<double> losses;
  for (double loss = 0; file >> loss;) {
    losses.push_back(loss);
  }
  return losses;
}

void write_curve(const std::string& path, const std::vector<double>& losses) {
  std::ofstream file(path);
  for (const double loss : losses) {
    file << fmt::format("{:.12g}\n", loss);
  }
}

struct Way {
  const char* name;
  Instructions instructions;
  int threads;
  int steps;  ///< few with two threads, which wait for each other on a busy machine
};

class Golden : public ::testing::TestWithParam<std::tuple<const char*, Way>> {};

TEST_P(Golden, LossCurveIsUnchanged) {
  const auto& [model, way] = GetParam();
  if (!has_instructions(way.instructions)) {
    GTEST_SKIP() << "this processor does not have " << way.name;
  }
  const std::vector<double> losses = loss_curve(
      curve_model(model), DType::F64,
      {.threads = way.threads, .pinned = false, .instructions = way.instructions}, way.steps);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (std::getenv("TRIREME_MAKE_GOLDEN") != nullptr && way.steps == kCurveSteps) {
    write_curve(golden_path(model), losses);
    return;
  }
  const std::vector<double> golden = read_curve(golden_path(model));
  ASSERT_EQ(golden.size(), kCurveSteps);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    ASSERT_NEAR(losses[i], golden[i], kTolerance * golden[i]) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Golden,
    ::testing::Combine(::testing::Values("gpt", "llama", "experts", "depths", "conv", "mlp"),
                       ::testing::Values(Way{"baseline", Instructions::Baseline, 1, kCurveSteps},
                                         Way{"avx2", Instructions::Avx2, 1, kCurveSteps},
                                         Way{"avx512", Instructions::Avx512, 1, kCurveSteps},
                                         Way{"two_threads", Instructions::Widest, 2, 5})),
    [](const auto& test) {
      return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param).name);
    });

/// Every model learns: the last losses are well below the first.
TEST(Curves, Decrease) {
  for (const char* model : {"gpt", "llama", "experts", "depths", "conv", "mlp"}) {
    const std::vector<double> golden = read_curve(golden_path(model));
    ASSERT_EQ(golden.size(), kCurveSteps) << model;
    double last = 0;
    for (std::size_t i = golden.size() - 10; i < golden.size(); ++i) {
      last += golden[i] / 10;
    }
    EXPECT_LT(last, 0.85 * golden.front()) << model;
  }
}

}  // namespace
}  // namespace trireme::train
