// Pipelines in execution: what ranks keep for a table, and the tables that one device cannot run.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "plan_case.h"
#include "tiny_model.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr int kStages = 4;
constexpr std::int64_t kPipelineWidth = 16;
constexpr std::int64_t kPipelineLength = 32;

Model deep_gpt(std::int64_t sequences) {
  ModelConfig config = tiny_model();
  config.context = kPipelineLength;
  config.width = kPipelineWidth;
  config.layers = 2 * kStages;
  config.tied = false;
  return make_model(config, {.sequences = sequences, .length = kPipelineLength});
}

// Planned activation memory follows the table.

/// What a stage keeps, in bytes: activations at the peak, and parameters.
struct Kept {
  double activations = 0;
  double parameters = 0;
};

/// By stage, with one sequence in each micro-batch.
std::vector<Kept> kept_by_stage(const std::string& schedule, int microbatches) {
  const Graph graph = make_training_graph(deep_gpt(microbatches).graph);
  const Plan plan = plan_of({.mesh = "pipe=4", .microbatches = microbatches, .schedule = schedule});
  std::vector<Kept> stages;
  for (const Program& program : programs_of(graph, plan, dim_names(graph))) {
    const MemoryUse use = memory_use(program);
    const auto bytes = [&](Category category) {
      return static_cast<double>(use.at_peak.at(static_cast<std::size_t>(category)).count);
    };
    stages.push_back({bytes(Category::Activation), bytes(Category::Parameter)});
  }
  return stages;
}

TEST(PipelineMemory, MatchesTable) {
  constexpr int kBatches = 8;
  constexpr int kHalf = kBatches / 2;
  const std::vector<Kept> few = kept_by_stage("gpipe", kHalf);
  const std::vector<Kept> all = kept_by_stage("gpipe", kBatches);
  const std::vector<Kept> in_turn = kept_by_stage("1f1b", kBatches);
  const std::vector<Kept> longer = kept_by_stage("1f1b", 2 * kBatches);
  const std::vector<int> peaks =
      activation_peaks(make_pipeline("1f1b", {.ranks = kStages, .microbatches = kBatches}));
  const double message = kPipelineLength * kPipelineWidth * sizeof(double);
  for (std::size_t i = 0; i < kStages; ++i) {
    EXPECT_LE(peaks[i], kStages - static_cast<int>(i));
    const double each = (all[i].activations - few[i].activations) / (kBatches - kHalf);
    // Of a finished micro-batch, nothing; plus sums of gradients, and messages in flight.
    const double most =
        all[i].activations - (kBatches - peaks[i]) * each + in_turn[i].parameters + 3 * message;
    EXPECT_LE(in_turn[i].activations, most) << "stage " << i;
    EXPECT_LT(in_turn[i].activations, all[i].activations - 2 * each) << "stage " << i;
    EXPECT_NEAR(longer[i].activations, in_turn[i].activations, message) << "stage " << i;
  }
}

// Receives for a task are posted before the previous task.
TEST(PipelineMemory, MessagesOverlapWithCompute) {
  constexpr int kBatches = 8;
  const Graph graph = make_training_graph(deep_gpt(kBatches).graph);
  const Plan plan = plan_of({.mesh = "pipe=4", .microbatches = kBatches, .schedule = "1f1b"});
  const Program program = programs_of(graph, plan, dim_names(graph)).at(1);
  int hidden = 0;
  int early = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    const auto end = program.instructions.begin() + std::max(one.done_before, 0);
    const auto computes = [](const Instruction& other) {
      return !other.op->communicates && !other.op->is_view;
    };
    if (one.op->name == "receive") {
      hidden +=
          std::any_of(program.instructions.begin() + static_cast<std::ptrdiff_t>(i), end, computes)
              ? 1
              : 0;
    }
    early += one.op->name == "send" && end != program.instructions.end() ? 1 : 0;
  }
  // In both directions; not before the first task, and not back after the last ones.
  EXPECT_GE(hidden, 2 * kBatches - 1);
  EXPECT_GE(early, 2 * kBatches - kStages);
}

// Chimera: every stage is on two ranks, which stay bitwise identical.

TEST(Chimera, ReplicasStayIdentical) {
  const Model model = deep_gpt(4);
  const Graph graph = make_training_graph(model.graph, {.clip_limit = 0.5});
  const Plan plan = plan_of({.mesh = "pipe=4", .microbatches = 4, .schedule = "chimera"});
  Numbers first;
  for (const ModelParameter& parameter : model.parameters) {
    std::vector<double>& numbers = first[parameter.name];
    numbers.resize(static_cast<std::size_t>(parameter.type.shape.element_count()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(static_cast<double>(i + 1));
    }
  }
  Numbers batch{{"step", {1}}, {"learning_rate", {0.01}}};
  for (const char* name : {"tokens", "targets"}) {
    for (int i = 0; i < 4 * kPipelineLength; ++i) {
      batch[name].push_back(i * i % 13);
    }
  }
  const Trained trained = train_on_ranks(graph, plan, dim_names(graph), first, {batch, batch});
  for (std::size_t rank = 0; rank < kStages; ++rank) {
    EXPECT_EQ(trained.held[rank], trained.held[kStages - 1 - rank]);
    EXPECT_GT(trained.held[rank].size(), 0U);
  }
  EXPECT_NE(trained.kept.at("h.0.mlp.c_fc.weight"), first.at("h.0.mlp.c_fc.weight"));
}

}  // namespace
}  // namespace trireme
