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
    EXPECT_LE(std::abs(relative(predicted.peak, planned.peak, planned.peak)), kMemoryTolerance)
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

std::vector<Case> with_recomputation(std::vector<Case> plans) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].recompute = i % 2 == 0 ? RecomputeMode::Full : RecomputeMode::Selective;
  }
  return plans;
}

// The three language models split the plans in the short test; in the long one each takes all.
TEST(MemoryPrediction, Gpt) {
  check_all(language(tiny_model()), every_nth(plans_of_language_models(), 3, 0));
}
TEST(MemoryPrediction, GptWithDropoutAndRecomputation) {
  check_all(language(tiny_model_with_dropout()),
            with_recomputation(every_nth(plans_of_language_models(), 3, 1)));
}
TEST(MemoryPrediction, Llama) {
  check_all(language(tiny_model(Family::Llama)), every_nth(plans_of_language_models(), 3, 2));
}
TEST(LongMemoryPrediction, Gpt) {
  check_all(language(tiny_model()), plans_of_language_models());
}
TEST(LongMemoryPrediction, GptWithDropoutAndRecomputation) {
  check_all(language(tiny_model_with_dropout()), with_recomputation(plans_of_language_models()));
}
TEST(LongMemoryPrediction, Llama) {
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

/// Several weight versions, and optimizers with f32 master copies of bf16 weights.
TEST(MemoryPrediction, WeightVersions) {
  check_all(language(tiny_model()),
            {{.mesh = "pipe=2", .microbatches = 4, .schedule = "pipedream-2bw"},
             {.mesh = "pipe=2,data=2", .microbatches = 4, .schedule = "pipedream-2bw", .zero = 1}});
}
TEST(MemoryPrediction, MasterWeights) {
  ModelConfig config = tiny_model();
  config.dtype = DType::BF16;
  TrainingOptions options;
  options.master_weights = true;
  check_all(make_training_graph(make_model(config, kTinyBatch).graph, options),
            {{.mesh = "data=2"},
             {.mesh = "data=2,tensor=2", .zero = 1},
             {.mesh = "data=2,tensor=2", .zero = 3},
             {.mesh = "pipe=2,data=2", .microbatches = 2, .zero = 2}});
}

/// Four sequences on 64 ranks: four have one, the others none; twice, in two stages.
TEST(MemoryPrediction, EvaluatesEachKindOfRankOnce) {
  const Graph graph = language(tiny_model());
  const MemoryPrediction prediction =
      predict_memory({graph, dim_names(graph)}, plan_of({.mesh = "data=64,pipe=2"}));
  ASSERT_EQ(prediction.kinds.size(), 4U);
  const auto ranks_of = [&](std::size_t kind) { return prediction.kinds[kind].ranks; };
  EXPECT_EQ(ranks_of(0), 4);
  EXPECT_EQ(ranks_of(1), 4);
  EXPECT_EQ(ranks_of(2), 60);
  EXPECT_EQ(ranks_of(3), 60);
  EXPECT_EQ(prediction.kind_of.size(), 128U);
  EXPECT_EQ(prediction.kind_of[126], prediction.kind_of[8]);
  EXPECT_GE(prediction.largest().use.peak, prediction.at(127).peak);
}

TEST(MemoryPrediction, RejectsPlansThatCannotCompile) {
  const Graph graph = language(tiny_model());
  const Plan plan = plan_of({.mesh = "pipe=8", .microbatches = 4});
  expect_error(ErrorKind::Usage, "8 stages are more than the 4 blocks", [&] {
    (void)predict_memory({graph, dim_names(graph)}, plan);
  });
}

}  // namespace
}  // namespace trireme
