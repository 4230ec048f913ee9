#include "train/step/memory_plan.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "train/step/memory_fixes.h"
#include "train/step/trainer.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

TrainerOptions small_training() {
  TrainerOptions options;
  options.model = preset_model("gpt-nano");
  options.batch = {.sequences = 8, .length = 32};
  return options;
}

std::unique_ptr<Device> one_thread() {
  return make_cpu_device({.threads = 1, .pinned = false});
}

TEST(MemoryPlan, MatchesTrainer) {
  const std::unique_ptr<Device> device = one_thread();
  for (const RecomputeMode mode : {RecomputeMode::None, RecomputeMode::Full}) {
    TrainerOptions options = small_training();
    options.plan.recompute.mode = mode;
    const MemoryNeed need = plan_memory(options, *device);
    const Trainer trainer(options, *device);
    EXPECT_EQ(need.arena.count + need.workspace.count, trainer.memory().count);
    EXPECT_LE(need.use.peak, need.arena);
    EXPECT_GT(need.evaluation.count, 0);
    ASSERT_FALSE(need.largest.empty());
    EXPECT_TRUE(std::ranges::is_sorted(need.largest, std::greater<>(),
                                       [](const LargeTensor& t) { return size_of(t.type); }));
  }
}

TEST(MemoryPlan, CountsSynchronizationState) {
  const std::unique_ptr<Device> device = one_thread();
  TrainerOptions options = small_training();
  const MemoryNeed alone = plan_memory(options, *device);
  EXPECT_EQ(alone.synchronization.count, 0);
  const std::int64_t model = 4 * Trainer(options, *device).parameter_count();
  options.model_copies = 3;
  EXPECT_EQ(plan_memory(options, *device).total().count, alone.total().count + 3 * model);
  options.split_update = true;  // with the optimizer's state and gradients
  const MemoryNeed split = plan_memory(options, *device);
  EXPECT_GT(split.update.count + split.synchronization.count, 6 * model);
}

/// Nothing reads the logits of a training step, so their gradient reuses their memory. As an output, as in the forward
/// graph, they would need separate memory.
TEST(MemoryPlan, KeepsNoLogits) {
  TrainerOptions options = small_training();
  ModelConfig config = preset_model("gpt-nano");
  config.vocabulary = 4096;
  options.model = config;
  const Model model = make_model(options.model, options.batch);
  const std::string logits = model.graph.value(model.graph.output("logits")).name;
  const Graph step = make_step_graph(model, options).graph;
  GraphBuilder with_logits(step);
  with_logits.output("logits", step.find(logits));
  const Bytes saved = size_of(step.value(step.find(logits)).type);
  EXPECT_EQ(saved.count, 8 * 32 * 4096 * 4);
  EXPECT_LE(make_program(step).arena.count + saved.count,
            make_program(with_logits.finish()).arena.count);
  EXPECT_THROW((void)step.output("logits"), Error);
  EXPECT_TRUE(make_evaluation_model(options).graph.output("logits").valid())
      << "sampling reads them";
}

/// For every rank of a plan, without compiling anything.
TEST(MemoryPlan, IsPredictedWithoutCompiling) {
  const std::unique_ptr<Device> device = one_thread();
  TrainerOptions options = small_training();
  options.plan.mesh = parse_mesh("pipe=2,data=2");
  options.plan.microbatches = 2;
  options.plan.zero = 1;
  for (int rank = 0; rank < options.plan.mesh.devices(); ++rank) {
    const std::int64_t before = compilation_count();
    const PredictedMemory predicted = predict_memory(options, rank);
    EXPECT_EQ(compilation_count(), before);
    const CompiledTraining compiled = compile_training(options, rank);
    const MemoryNeed need = plan_memory(compiled, *device, rank);
    EXPECT_EQ(predicted.step, need.use.peak);
    EXPECT_EQ(predicted.evaluation, memory_use(compiled.evaluation.program(rank)).peak);
    EXPECT_EQ(predicted.flops, need.flops);
  }
}

/// Candidates that cannot fit are not compiled: only the original options are, their step and their evaluation.
TEST(MemoryPlan, CompilesOnlyPlausibleFixes) {
  const std::unique_ptr<Device> device = one_thread();
  const std::int64_t before = compilation_count();
  EXPECT_TRUE(find_memory_fixes(small_training(), {1000}, *device).empty());
  EXPECT_EQ(compilation_count() - before, 2);
}

/// All of them fit at the stated cost, and the batch is the largest possible.
TEST(MemoryPlan, SuggestedFixesFit) {
  const std::unique_ptr<Device> device = one_thread();
  const TrainerOptions options = small_training();
  const MemoryNeed need = plan_memory(options, *device);
  for (const double share : {0.95, 0.8, 0.65}) {
    const Bytes limit{static_cast<std::int64_t>(share * static_cast<double>(need.total().count))};
    const std::vector<MemoryFix> fixes = find_memory_fixes(options, limit, *device);
    ASSERT_FALSE(fixes.empty()) << share;
    EXPECT_TRUE(std::ranges::is_sorted(fixes, {}, &MemoryFix::extra_flops));
    for (const MemoryFix& fix : fixes) {
      EXPECT_LE(fix.need, limit);
      EXPECT_EQ(plan_memory(fix.options, *device).total(), fix.need);
      TrainerOptions more = fix.options;
      ++more.batch.sequences;
      EXPECT_TRUE(fix.options.batch.sequences == options.batch.sequences ||
                  plan_memory(more, *device).total() > limit);
    }
  }
  EXPECT_TRUE(find_memory_fixes(options, {1000}, *device).empty());
  EXPECT_LT(least_memory(options, *device).need, need.total());
}

/// Only recomputation costs FLOPs, and more of it costs more.
TEST(MemoryPlan, ReportsCostOfFixes) {
  const std::unique_ptr<Device> device = one_thread();
  const TrainerOptions options = small_training();
  const MemoryNeed need = plan_memory(options, *device);
  for (const MemoryFix& fix : find_memory_fixes(options, {need.total().count - 1}, *device)) {
    EXPECT_EQ(fix.extra_flops > 1e-9, fix.options.plan.recompute.any()) << fix.extra_flops;
    EXPECT_LT(fix.extra_flops, 1.0 / 3 + 0.05) << "more than a full forward pass";
  }
}

TEST(MemoryPlan, FixesIncludeMicrobatchesAndDroppingMasterWeights) {
  const std::unique_ptr<Device> device = one_thread();
  TrainerOptions options = small_training();
  ModelConfig config = preset_model("gpt-nano");
  config.dtype = DType::BF16;
  options.model = config;
  const MemoryNeed need = plan_memory(options, *device);
  const std::vector<MemoryFix> fixes =
      find_memory_fixes(options, {need.total().count - 1}, *device);
  EXPECT_TRUE(std::ranges::any_of(
      fixes, [](const MemoryFix& fix) { return fix.options.plan.microbatches == 2; }));
  EXPECT_TRUE(std::ranges::any_of(
      fixes, [](const MemoryFix& fix) { return !fix.options.training.master_weights; }));
}

}  // namespace
}  // namespace trireme::train
