// Predicted memory is what the compiled programs plan: for every rank of all plans of the equality tests, and by
// category.
#include "trireme/memory_prediction.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "expect_error.h"
#include "plan_cases.h"
#include "plan_models.h"
#include "trireme/compiled_plan.h"
#include "trireme/model_dims.h"
#include "trireme/recompute.h"

namespace trireme {
namespace {

constexpr double kTolerance = 0.02;

double relative(Bytes predicted, Bytes planned, Bytes whole) {
  return static_cast<double>(predicted.count - planned.count) / static_cast<double>(whole.count);
}

/// The largest errors over all plans, as shares of the planned peak.
struct Worst {
  double peak = 0;
  double category = 0;
  std::string where{};

  void add(const MemoryUse& predicted, const MemoryUse& planned, const std::string& rank) {
    const double error = relative(predicted.peak, planned.peak, planned.peak);
    if (std::abs(error) > std::abs(peak)) {
      peak = error;
      where = rank;
    }
    for (std::size_t c = 0; c < kCategories; ++c) {
      category = std::max(category, std::abs(relative(predicted.at_peak.at(c),
                                                      planned.at_peak.at(c), planned.peak)));
    }
  }
};

void check_plan(const Graph& whole, const Case& c, Worst& worst) {
  const Plan plan = plan_of(c);
  const NamedGraph graph{recompute_by(whole, plan.recompute), dim_names(whole)};
  const MemoryPrediction prediction = predict_memory(graph, plan);
  const CompiledPlan compiled(graph, plan);
  ASSERT_EQ(prediction.kind_of.size(), compiled.programs().size());
  for (int rank = 0; rank < plan.mesh.devices(); ++rank) {
    const MemoryUse planned = memory_use(compiled.program(rank));
    const MemoryUse& predicted = prediction.at(rank);
    EXPECT_LE(std::abs(relative(predicted.peak, planned.peak, planned.peak)), kTolerance)
        << fmt::format("rank {}: predicted {}, planned {}", rank, predicted.peak.count,
                       planned.peak.count);
    worst.add(predicted, planned, fmt::format("rank {} of {}", rank, describe(c)));
  }
}

void check_all(const Graph& graph, const std::vector<Case>& plans) {
  Worst worst;
  for (const Case& c : plans) {
    SCOPED_TRACE(describe(c));
    check_plan(graph, c, worst);
  }
  fmt::print("{} plans; the worst peak: {:+.3f} % ({}); the worst category: {:.3f} % of the peak\n",
             plans.size(), 100 * worst.peak, worst.where.empty() ? "all equal" : worst.where,
             100 * worst.category);
}

Graph language(const ModelConfig& config) {
  return language_training(make_model(config, kTinyBatch));
}

TEST(MemoryPrediction, Gpt) {
  check_all(language(tiny_model()), plans_of_language_models());
}
TEST(MemoryPrediction, GptWithDropoutAndRecomputation) {
  std::vector<Case> plans = plans_of_language_models();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].recompute = i % 2 == 0 ? RecomputeMode::Full : RecomputeMode::Selective;
  }
  check_all(language(tiny_model_with_dropout()), plans);
}
TEST(MemoryPrediction, Llama) {
  check_all(language(tiny_model(Family::Llama)), plans_of_language_models());
}
TEST(MemoryPrediction, MixtureOfExperts) {
  check_all(language(tiny_experts()), plans_of_experts());
}
TEST(MemoryPrediction, Perceptron) {
  check_all(example_training(tiny_perceptron()), plans_of_examples());
}
TEST(MemoryPrediction, ConvNet) {
  check_all(example_training(tiny_conv_net()), plans_of_examples());
}

}  // namespace
}  // namespace trireme
