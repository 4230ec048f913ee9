// Properties of optimizers beyond the table of cases: their types, and skipped steps.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Dense vector_of(std::vector<double> data) {
  Dense dense{Shape{static_cast<std::int64_t>(data.size())}};
  dense.data = std::move(data);
  return dense;
}

Dense scalar(double value) {
  Dense dense{Shape{}};
  dense.data = {value};
  return dense;
}

Graph adamw_graph(DType p, DType g, DType state) {
  GraphBuilder builder("g");
  const std::vector<ValueId> in{
      builder.parameter("p", {p, {2}}), builder.input("g", {g, {2}}),
      builder.state("m", {state, {2}}), builder.state("v", {state, {2}}),
      builder.input("lr", {}),          builder.input("step", {DType::I64, {}}),
      builder.input("scale", {})};
  const std::vector<ValueId> out = builder.add("adamw", in);
  builder.update(in[0], out[0]);
  builder.update(in[2], out[1]);
  builder.update(in[3], out[2]);
  return builder.finish();
}

TEST(Optimizers, StateIsAtLeastF32) {
  require_valid(adamw_graph(DType::BF16, DType::BF16, DType::F32));
  require_valid(adamw_graph(DType::F16, DType::F32, DType::F32));
  require_valid(adamw_graph(DType::F64, DType::F64, DType::F64));
  EXPECT_THROW(adamw_graph(DType::BF16, DType::BF16, DType::BF16), Error);
  EXPECT_THROW(adamw_graph(DType::F64, DType::BF16, DType::F64), Error);
}

/// A master copy of a 16-bit parameter has 16-bit gradients.
TEST(Optimizers, F32ParameterAcceptsHalfGradients) {
  require_valid(adamw_graph(DType::F32, DType::BF16, DType::F32));
  require_valid(adamw_graph(DType::F32, DType::F16, DType::F32));
}

TEST(Optimizers, SkipStepIfScaleIsZeroOrNotFinite) {
  const Graph graph = adamw_graph(DType::F32, DType::F32, DType::F32);
  Leaves leaves{{"p", vector_of({1, 2})}, {"g", vector_of({kInfinity, std::nan("")})},
                {"m", vector_of({3, 4})}, {"v", vector_of({5, 6})},
                {"lr", scalar(0.1)},      {"step", scalar(1)}};
  for (const double scale : {0.0, kInfinity, std::nan("")}) {
    leaves["scale"] = scalar(scale);
    const std::vector<Dense> values = evaluate(graph, leaves);
    for (const Update& update : graph.updates()) {
      EXPECT_EQ(values[update.value.index].data, values[update.target.index].data);
    }
  }
}

/// The step of muon on p = 0 with momentum 0: -rate scale X.
std::vector<double> muon_step(const Shape& shape, const std::vector<double>& gradient) {
  GraphBuilder builder("g");
  const std::vector<ValueId> in{
      builder.parameter("p", {DType::F64, shape}), builder.input("g", {DType::F64, shape}),
      builder.state("m", {DType::F64, shape}), builder.input("lr", {DType::F64, {}}),
      builder.input("scale", {DType::F64, {}})};
  const std::vector<ValueId> out = builder.add("muon", in, {{"momentum", 0.0}});
  Dense g(shape);
  g.data = gradient;
  const Leaves leaves{
      {"p", Dense(shape)}, {"g", g}, {"m", Dense(shape)}, {"lr", scalar(1)}, {"scale", scalar(1)}};
  return evaluate(builder.graph(), leaves)[out[0].index].data;
}

/// Rows of a wide matrix become nearly orthonormal, whatever their lengths were; the scale is 0.2 sqrt(3).
TEST(Muon, OrthogonalizesGradient) {
  const std::vector<double> x = muon_step({2, 3}, {4, 0, 1, 0, 0.5, 2});
  const double scale = 0.2 * std::sqrt(3.0);
  const auto dot = [&](std::size_t a, std::size_t b) {
    return (x[a] * x[b] + x[a + 1] * x[b + 1] + x[a + 2] * x[b + 2]) / (scale * scale);
  };
  EXPECT_NEAR(dot(0, 0), 1, 0.6);
  EXPECT_NEAR(dot(3, 3), 1, 0.6);
  EXPECT_NEAR(dot(0, 3), 0, 0.25);
  EXPECT_LT(x[0], 0) << "against the gradient";
}

TEST(Muon, IsIndependentOfGradientNorm) {
  const std::vector<double> one = muon_step({2, 2}, {1, 2, 3, 5});
  const std::vector<double> large = muon_step({2, 2}, {1000, 2000, 3000, 5000});
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i], large[i], 1e-6);
  }
  EXPECT_EQ(muon_step({2, 2}, {0, 0, 0, 0}), (std::vector<double>{0, 0, 0, 0}));
}

std::vector<Dense> clip(const std::vector<double>& sums, double limit) {
  GraphBuilder builder("g");
  Leaves leaves;
  std::vector<ValueId> inputs;
  for (const double sum : sums) {
    const std::string name = "in" + std::to_string(inputs.size());
    inputs.push_back(builder.input(name, {}));
    leaves[name] = scalar(sum);
  }
  const std::vector<ValueId> out = builder.add("clip_scale", inputs, {{"limit", limit}});
  const std::vector<Dense> values = evaluate(builder.graph(), leaves);
  return {values.end() - 3, values.end()};
}

TEST(ClipScale, KeepsNormWithinLimit) {
  const std::vector<Dense> clipped = clip({9, 16}, 2.5);
  EXPECT_EQ(clipped[0].data[0], 0.5);
  EXPECT_EQ(clipped[1].data[0], 5);
  EXPECT_EQ(clipped[2].data[0], 1);
  EXPECT_EQ(clip({9, 16}, 10)[0].data[0], 1);
  EXPECT_EQ(clip({0}, 1)[0].data[0], 1);
  EXPECT_EQ(clip({9, 16}, kInfinity)[0].data[0], 1);
}

TEST(ClipScale, IsZeroIfNormIsNotFinite) {
  for (const double bad : {kInfinity, std::nan("")}) {
    for (const double limit : {1.0, kInfinity}) {
      const std::vector<Dense> clipped = clip({1, bad}, limit);
      EXPECT_EQ(clipped[0].data[0], 0);
      EXPECT_EQ(clipped[2].data[0], 0);
    }
  }
}

/// Scale, good steps, finite and loss to the next scale, good steps and whether it was lowered.
std::vector<double> next_scale(const std::vector<double>& from) {
  GraphBuilder builder("g");
  Leaves leaves;
  std::vector<ValueId> inputs;
  for (const double number : from) {
    const std::string name = "in" + std::to_string(inputs.size());
    inputs.push_back(builder.input(name, {}));
    leaves[name] = scalar(number);
  }
  (void)builder.add("next_loss_scale", inputs,
                    {{"interval", std::int64_t{3}}, {"least", 2.0}, {"most", 64.0}});
  const std::vector<Dense> values = evaluate(builder.graph(), leaves);
  return {values[4].data[0], values[5].data[0], values[6].data[0]};
}

TEST(NextLossScale, HalvesAfterOverflowAndDoublesAfterGoodSteps) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(next_scale({16, 0, 1, 5}), (Numbers{16, 1, 0}));
  EXPECT_EQ(next_scale({16, 2, 1, 5}), (Numbers{32, 0, 0}));
  EXPECT_EQ(next_scale({16, 2, 0, 5}), (Numbers{8, 0, 1}));
  EXPECT_EQ(next_scale({3, 2, 0, 5}), (Numbers{2, 0, 1}));
  EXPECT_EQ(next_scale({64, 2, 1, 5}), (Numbers{64, 0, 0}));
  EXPECT_EQ(next_scale({100, 2, 1, 5}), (Numbers{100, 0, 0})) << "started above the maximum";
}

/// The scale does not cause a loss that is NaN, nor gradients that overflow at the smallest scale.
TEST(NextLossScale, StaysWhenNoScaleHelps) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(next_scale({16, 2, 0, std::nan("")}), (Numbers{16, 2, 0}));
  EXPECT_EQ(next_scale({16, 2, 0, kInfinity}), (Numbers{16, 2, 0}));
  EXPECT_EQ(next_scale({2, 2, 0, 5}), (Numbers{2, 2, 0}));
}

}  // namespace
}  // namespace trireme
