// The gradient of every op against central differences, in f64 (relative error below 1e-5).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/op_cases.h"
#include "trireme/autodiff.h"
#include "trireme/error.h"

namespace trireme::testing {
namespace {

constexpr double kStep = 1e-5;
constexpr double kRelative = 1e-5;

/// The op's results, each multiplied by fixed weights and summed: a scalar that depends on every element.
struct Probe {
  Graph graph{};
  ValueId loss{};
  std::vector<ValueId> inputs{};
  Leaves leaves{};
};

Probe probe_of(const OpCase& c) {
  GraphBuilder builder(graph_of(c, DType::F64));
  Probe probe;
  const std::vector<Dense> drawn = draw_inputs(c);
  for (std::size_t k = 0; k < drawn.size(); ++k) {
    const std::string name = fmt::format("in{}", k);
    probe.leaves[name] = drawn[k];
    probe.inputs.push_back(builder.graph().find(name));
  }
  std::vector<ValueId> results = builder.graph().nodes().front().outputs;
  results.resize(std::min(results.size(), op_named(c.op).smooth_outputs));
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> reals(0.5, 1.5);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!is_float(builder.type(results[k]).dtype)) {
      continue;
    }
    const std::string name = fmt::format("weight{}", k);
    const ValueId weight =
        builder.input(name, {builder.type(results[k]).dtype, builder.shape(results[k])});
    Dense weights(builder.shape(results[k]));
    for (double& element : weights.data) {
      element = reals(generator);
    }
    probe.leaves[name] = weights;
    std::vector<std::int64_t> axes;
    for (int d = 0; d < builder.shape(results[k]).rank(); ++d) {
      axes.push_back(d);
    }
    const ValueId term = builder.add1(
        "reduce_sum", {builder.add1("multiply", {results[k], weight})}, {{"axes", axes}});
    probe.loss = probe.loss.valid() ? builder.add1("add", {probe.loss, term}) : term;
  }
  probe.graph = builder.finish();
  return probe;
}

double value_of(const std::vector<Dense>& values, ValueId id) {
  return values[static_cast<std::size_t>(id.index)].data.at(0);
}

void check_case(const OpCase& c) {
  Probe probe = probe_of(c);
  const Gradients with = add_gradients(probe.graph, probe.loss, probe.inputs);
  const std::vector<Dense> values = evaluate(with.graph, probe.leaves);
  for (std::size_t k = 0; k < probe.inputs.size(); ++k) {
    if (!is_float(probe.graph.value(probe.inputs[k]).type.dtype)) {
      EXPECT_FALSE(with.values[k].valid());
      continue;
    }
    const std::string name = fmt::format("in{}", k);
    Dense& leaf = probe.leaves[name];
    for (std::size_t i = 0; i < leaf.data.size(); ++i) {
      const double kept = leaf.data[i];
      leaf.data[i] = kept + kStep;
      const double above = value_of(evaluate(probe.graph, probe.leaves), probe.loss);
      leaf.data[i] = kept - kStep;
      const double below = value_of(evaluate(probe.graph, probe.leaves), probe.loss);
      leaf.data[i] = kept;
      const double expected = (above - below) / (2 * kStep);
      const double found = with.values[k].valid()
                               ? values[static_cast<std::size_t>(with.values[k].index)].data[i]
                               : 0;
      ASSERT_NEAR(found, expected, kRelative * std::max(1.0, std::abs(expected)))
          << describe(c) << name << " at " << i;
    }
  }
}

TEST(Gradients, MatchCentralDifferences) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    if (op_named(c.op).gradient != nullptr) {
      check_case(c);
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

// Finite differences cannot check it: they are smaller than the resolution of bf16.
TEST(Gradients, CastBackThroughCast) {
  const Graph graph = parse_graph(
      "graph g {\n parameter %w: f32[2]\n %c: bf16[2] = cast(%w) to=\"bf16\"\n"
      " %s: bf16[] = reduce_sum(%c) axes=[0]\n}");
  const Gradients with = add_gradients(graph, graph.find("s"), {graph.find("w")});
  EXPECT_EQ(to_text(with.graph.value(with.values[0]).type), "f32[2]");
}

TEST(Gradients, RequireScalarLoss) {
  const Graph graph = parse_graph("graph g {\n parameter %w: f32[2]\n}");
  EXPECT_THROW((void)add_gradients(graph, graph.find("w"), {graph.find("w")}), Error);
}

}  // namespace
}  // namespace trireme::testing
