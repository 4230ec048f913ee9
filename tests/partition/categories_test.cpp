// Memory categories of ranks: communication is what one device does not have.
#include <algorithm>

#include <gtest/gtest.h>

#include "on_ranks.h"
#include "plan_case.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/training.h"

namespace trireme {
namespace {

Graph gpt() {
  ModelConfig config = preset_model("gpt-nano");
  config.layers = 2;
  const Model model = make_model(config, {.sequences = 4, .length = 32});
  return make_training_graph(model.graph);
}

/// By rank.
std::vector<Program> programs_with(const Case& c) {
  const Graph graph = gpt();
  return programs_of(graph, plan_of(c), dim_names(graph));
}

std::int64_t at_peak(const Program& program, Category category) {
  return memory_use(program).at_peak.at(static_cast<std::size_t>(category)).count;
}

/// Bytes of all results of these ops in the category, whenever they are live.
std::int64_t bytes_made(const Program& program, std::string_view op, Category category) {
  std::int64_t sum = 0;
  for (const Instruction& instruction : program.instructions) {
    const Buffer& made = program.buffer(instruction.outputs[0]);
    if (instruction.op->name == op && made.category == category) {
      sum += size_of(made.type).count;
    }
  }
  return sum;
}

TEST(PlanCategories, OneDeviceHasNoCommunication) {
  for (const int microbatches : {1, 2}) {
    const std::vector<Program> all = programs_with({.mesh = "", .microbatches = microbatches});
    ASSERT_EQ(all.size(), 1U);
    for (const Buffer& buffer : all[0].buffers) {
      EXPECT_NE(buffer.category, Category::Communication) << buffer.name;
    }
  }
}

// What is kept between steps is sharded in two; temporarily gathered values do not count there.
TEST(PlanCategories, GatheredParametersAreCommunication) {
  const Program one = programs_with({.mesh = ""})[0];
  const Program part = programs_with({.mesh = "data=2", .zero = 3})[0];
  const auto whole = static_cast<double>(at_peak(one, Category::Parameter));
  EXPECT_NEAR(static_cast<double>(at_peak(part, Category::Parameter)), whole / 2, whole / 100);
  EXPECT_GT(at_peak(part, Category::Communication), 0);
  EXPECT_GE(bytes_made(part, "all_gather", Category::Communication),
            at_peak(one, Category::Parameter));
}

// Gradients are as large as the parameters, however they are reduced; small ones go through a bucket.
TEST(PlanCategories, ReducedGradientsAreGradients) {
  for (const int zero : {0, 1, 2}) {
    const Program program = programs_with({.mesh = "data=2", .zero = zero})[0];
    for (const char* op : {"all_reduce", "reduce_scatter"}) {
      for (const Instruction& instruction : program.instructions) {
        const Buffer& sum = program.buffer(instruction.outputs[0]);
        const Buffer& term = program.buffer(instruction.inputs.empty() ? instruction.outputs[0]
                                                                       : instruction.inputs[0]);
        if (instruction.op->name == op && sum.type.shape.element_count() > 1) {
          EXPECT_EQ(sum.category, term.category) << sum.name;
          EXPECT_TRUE(sum.category == Category::Gradient || sum.category == Category::Communication)
              << sum.name;
        }
      }
    }
    EXPECT_GT(bytes_made(program, zero == 0 ? "all_reduce" : "reduce_scatter", Category::Gradient),
              0);
  }
  const Program buckets = programs_with({.mesh = "data=2"})[0];
  EXPECT_GT(bytes_made(buckets, "concat", Category::Communication), 0);
}

/// A bucket for all gradients, a few, and none.
TEST(PlanCategories, BucketSizeDeterminesReductionCount) {
  const auto reductions = [](Bytes bucket) {
    const Program program = programs_with({.mesh = "data=2", .bucket = bucket})[0];
    return std::ranges::count_if(program.instructions, [](const Instruction& instruction) {
      return instruction.op->name == "all_reduce";
    });
  };
  const auto one = reductions({1 << 30});
  const auto few = reductions({256 << 10});
  const auto all = reductions({1});
  EXPECT_LT(one, few);
  EXPECT_LT(few, all);
}

TEST(PlanCategories, ReceivedActivationsAreCommunication) {
  const std::vector<Program> stages = programs_with({.mesh = "pipe=2", .microbatches = 2});
  const std::int64_t message = 2 * 32 * preset_model("gpt-nano").width * 4;
  for (const Program& stage : stages) {
    EXPECT_GE(bytes_made(stage, "receive", Category::Communication), 2 * message);
    EXPECT_EQ(bytes_made(stage, "receive", Category::Activation), 0);
  }
  EXPECT_GE(at_peak(stages[1], Category::Communication), message);
}

}  // namespace
}  // namespace trireme
