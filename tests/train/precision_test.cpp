// Training in bf16 and f16, compared with f32.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "train/curves.h"

namespace trireme::train {
namespace {

/// Relative distance of a loss curve from that in f32: mean and maximum.
struct Distance {
  double mean = 0;
  double most = 0;
};

Distance distance(const char* model, DType dtype) {
  const std::vector<double> f32 = loss_curve(curve_model(model), DType::F32, {.threads = 1});
  const std::vector<double> narrow = loss_curve(curve_model(model), dtype, {.threads = 1});
  Distance found;
  for (std::size_t i = 0; i < f32.size(); ++i) {
    const double off = std::abs(narrow[i] / f32[i] - 1);
    found.mean += off / static_cast<double>(f32.size());
    found.most = std::max(found.most, off);
  }
  return found;
}

/// A bf16 number has a relative error of up to 1/256. Measured: 0.1 % to 0.9 % on average, 0.5 % to 5 % at most.
TEST(Bf16, TracksF32LossCurve) {
  for (const char* model : {"gpt", "llama", "experts", "depths", "conv"}) {
    const Distance found = distance(model, DType::BF16);
    EXPECT_LT(found.mean, 0.02) << model;
    EXPECT_LT(found.most, 0.10) << model;
    EXPECT_GT(found.most, 0) << model << ": nothing was in bf16";
  }
}

/// A squared error doubles the relative error of the output. Measured: 3.5 % on average, 10 % at most.
TEST(Bf16, TracksF32LossCurveInRegression) {
  const Distance found = distance("mlp", DType::BF16);
  EXPECT_LT(found.mean, 0.07);
  EXPECT_LT(found.most, 0.20);
}

/// An f16 number has a relative error of up to 1/2048. Measured: 0.02 % to 0.3 % on average, 0.1 % to 2.2 % at most;
/// the maximum is for models that route tokens to experts.
TEST(F16, TracksF32LossCurve) {
  for (const char* model : {"gpt", "llama", "experts", "depths", "conv", "mlp"}) {
    const Distance found = distance(model, DType::F16);
    EXPECT_LT(found.mean, 0.01) << model;
    EXPECT_LT(found.most, 0.05) << model;
    EXPECT_GT(found.most, 0) << model << ": nothing was in f16";
  }
}

}  // namespace
}  // namespace trireme::train
