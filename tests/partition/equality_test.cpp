// Any plan computes the same as one device: losses and everything that is kept, after 5 steps, to 1e-10. So do devices
// that the host reaches only by copies, with exchanges that overlap with kernels, and devices that fuse.
#include <cmath>
#include <cstdint>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "plan_cases.h"
#include "plan_models.h"
#include "support/isolated_device.h"
#include "trireme/model_dims.h"
#include "trireme/model_kinds.h"
#include "trireme/op.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr int kComparedSteps = 5;

struct Task {
  Graph graph{};
  DimNames names{};
  Numbers first{};
  Batches batches{};
};

Task language_task(const ModelConfig& config, const BatchShape& shape,
                   const Optimizer& optimizer = AdamW{}) {
  Task task;
  const Model model = make_model(config, shape);
  task.graph = language_training(model, optimizer);
  task.names = dim_names(task.graph);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 0.3);
  std::uniform_int_distribution<int> token(0, static_cast<int>(config.vocabulary) - 1);
  for (const ModelParameter& parameter : model.parameters) {
    std::vector<double>& numbers = task.first[parameter.name];
    numbers.resize(static_cast<std::size_t>(parameter.type.shape.element_count()));
    for (double& number : numbers) {
      number = normal(random);
    }
  }
  for (int step = 0; step < kComparedSteps; ++step) {
    Numbers batch{{"step", {step + 1.0}}, {"learning_rate", {0.01}}};
    for (const char* name : {"tokens", "targets"}) {
      std::vector<double>& numbers = batch[name];
      numbers.resize(static_cast<std::size_t>(shape.sequences * shape.length));
      for (double& number : numbers) {
        number = token(random);
      }
    }
    task.batches.push_back(std::move(batch));
  }
  return task;
}

void expect_same(const Trained& one, const Trained& many) {
  ASSERT_EQ(one.losses.size(), many.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(one.losses[i], many.losses[i], kTolerance) << "step " << i;
  }
  EXPECT_NE(one.losses.front(), one.losses.back());
  ASSERT_EQ(one.kept.size(), many.kept.size());
  for (const auto& [name, numbers] : one.kept) {
    const std::vector<double>& others = many.kept.at(name);
    ASSERT_EQ(numbers.size(), others.size()) << name;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_NEAR(numbers[i], others[i], kTolerance) << name << " at " << i;
    }
  }
}

/// The programs' predicted bytes are what messages carried, by op, to the byte: for each rank; and in total what
/// traffic_of() says.
void expect_predicted_bytes(const Trained& many) {
  std::map<std::string, std::int64_t> traffic;
  std::map<std::string, std::int64_t> sent;
  for (std::size_t rank = 0; rank < many.sent.size(); ++rank) {
    std::map<std::string, std::int64_t> predicted;
    std::map<std::string, std::int64_t> counted;
    for (const auto& [op, bytes] : many.predicted[rank]) {
      predicted[op] = std::llround(bytes * kComparedSteps);
    }
    for (const auto& [op, bytes] : many.sent[rank]) {
      counted[op] = std::llround(bytes);
      sent[op] += counted[op];
    }
    EXPECT_EQ(predicted, counted) << "rank " << rank;
  }
  OpBytes sums;
  for (const OpBytes& rank : many.traffic) {
    for (const auto& [op, bytes] : rank) {
      sums[op] += bytes * kComparedSteps;
    }
  }
  for (const auto& [op, bytes] : sums) {
    traffic[op] = std::llround(bytes);
  }
  EXPECT_EQ(traffic, sent);
}

void check_plan(const Task& task, const Trained& one, const Plan& plan,
                const MakeDevice& make_device = make_one_thread) {
  const std::vector<Program> programs =
      programs_of(task.graph, plan, task.names, make_device()->fusions());
  EXPECT_EQ(trireme::problems(programs, groups_of(plan.mesh)), std::vector<std::string>());
  Trained many;
  ASSERT_NO_THROW(
      many = train_on_ranks(task.graph, plan, task.names, task.first, task.batches, make_device));
  expect_same(one, many);
  expect_predicted_bytes(many);
}

void check_all(const Task& task, const std::vector<Case>& plans,
               const MakeDevice& make_device = make_one_thread) {
  const Trained one = train_alone(task.graph, task.first, task.batches);
  for (const Case& c : plans) {
    SCOPED_TRACE(describe(c));
    check_plan(task, one, plan_of(c), make_device);
  }
}

/// The three language models split the plans in the short test; in the long one each takes all.
std::vector<Case> third(std::size_t first) {
  return every_nth(plans_of_language_models(), 3, first);
}

Task gpt_task() {
  return language_task(tiny_model(), kTinyBatch);
}

TEST(Equality, Gpt) {
  check_all(gpt_task(), third(0));
}
TEST(LongEquality, Gpt) {
  check_all(gpt_task(), plans_of_language_models());
}

// Data-parallel attention, feed-forward layers that are sharded over the same ranks, and tokens that move to them.
TEST(Equality, ShardedFeedForwardLayers) {
  const Task task = gpt_task();
  const Trained one = train_alone(task.graph, task.first, task.batches);
  for (const char* mesh : {"ffn=2", "ffn=3", "data=2,ffn=2"}) {
    SCOPED_TRACE(mesh);
    Plan plan = plan_of({.mesh = mesh});
    plan.sharding = {{"data", {"batch"}}, {"ffn", {"batch", "hidden"}}};
    check_plan(task, one, plan);
  }
}

// Masks depend neither on the plan nor on its recomputation; one device keeps everything.
void check_with_dropout_and_recomputation(std::vector<Case> plans,
                                          const MakeDevice& make_device = make_one_thread) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].recompute = i % 2 == 0 ? RecomputeMode::Full : RecomputeMode::Selective;
  }
  check_all(language_task(tiny_model_with_dropout(), kTinyBatch), plans, make_device);
}

TEST(Equality, GptWithDropoutAndRecomputation) {
  check_with_dropout_and_recomputation(third(1));
}
TEST(LongEquality, GptWithDropoutAndRecomputation) {
  check_with_dropout_and_recomputation(plans_of_language_models());
}

/// The number of recomputed instructions.
std::int64_t recomputed_count(const Program& program) {
  return std::ranges::count(program.instructions, Phase::Recompute, &Instruction::phase);
}

// On every rank: nothing, something, more.
TEST(Equality, PlansControlRecomputation) {
  const Task task = language_task(tiny_model(), kTinyBatch);
  for (const char* mesh : {"", "data=2", "tensor=2", "pipe=2", "context=2"}) {
    SCOPED_TRACE(mesh);
    const auto programs = [&](RecomputeMode mode) {
      return programs_of(task.graph, plan_of({.mesh = mesh, .recompute = mode}), task.names);
    };
    const std::vector<Program> none = programs(RecomputeMode::None);
    const std::vector<Program> some = programs(RecomputeMode::Selective);
    const std::vector<Program> full = programs(RecomputeMode::Full);
    for (std::size_t rank = 0; rank < none.size(); ++rank) {
      EXPECT_EQ(recomputed_count(none[rank]), 0);
      EXPECT_GT(recomputed_count(some[rank]), 0);
      EXPECT_GT(recomputed_count(full[rank]), recomputed_count(some[rank]));
    }
  }
}

Task llama_task() {
  return language_task(tiny_model(Family::Llama), kTinyBatch);
}

TEST(Equality, Llama) {
  check_all(llama_task(), third(2));
}
TEST(LongEquality, Llama) {
  check_all(llama_task(), plans_of_language_models());
}

// Experts on separate ranks, alone and combined with other axes.
TEST(Equality, MixtureOfExperts) {
  check_all(language_task(tiny_experts(), kTinyBatch), plans_of_experts());
}

/// Nodes of an op in the graph of a step.
std::int64_t count_of(const Graph& graph, std::string_view op) {
  return std::ranges::count_if(graph.nodes(),
                               [&](const Node& node) { return node.op->name == op; });
}

/// A layer, and a parameter that its loss does not depend on.
Task task_with_unused_parameter() {
  Task task;
  task.graph = make_training_graph(parse_graph(R"(graph g {
  input %x: f64[4,2]
  parameter %layers.0.weight: f64[2,3]
  parameter %layers.1.weight: f64[3,2]
  %h: f64[4,3] = einsum(%x, %layers.0.weight) equation="bi,ij->bj"
  %squares: f64[4,3] = multiply(%h, %h)
  %loss: f64[] = reduce_sum(%squares) axes=[0,1]
  output loss = %loss
}
)"),
                                   {.optimizer = Momentum{}, .clip_limit = 1});
  task.names = dim_names(task.graph);
  task.first = {{"layers.0.weight", {1, 2, 3, 4, 5, 6}}, {"layers.1.weight", {6, 5, 4, 3, 2, 1}}};
  for (int step = 0; step < kComparedSteps; ++step) {
    task.batches.push_back({{"step", {step + 1.0}},
                            {"learning_rate", {0.01}},
                            {"x", {1, -1, 0.5, 2, step * 0.1, 1, -2, 1}}});
  }
  return task;
}

// Under every plan it stays as it is, as on one device.
TEST(Equality, ParameterWithoutGradient) {
  const Task task = task_with_unused_parameter();
  const Trained one = train_alone(task.graph, task.first, task.batches);
  EXPECT_EQ(one.kept.at("layers.1.weight"), task.first.at("layers.1.weight"));
  EXPECT_NE(one.kept.at("layers.0.weight"), task.first.at("layers.0.weight"));
  for (const Case& c : {Case{.mesh = "data=2"}, Case{.mesh = "data=2", .zero = 1},
                        Case{.mesh = "data=2", .zero = 3}, Case{.mesh = "data=2,tensor=2"}}) {
    SCOPED_TRACE(describe(c));
    check_plan(task, one, plan_of(c));
  }
}

// Muon gathers the matrices that a plan shards; everything else is AdamW's.
TEST(Equality, GptWithMuon) {
  const Task task = language_task(tiny_model(), kTinyBatch, Muon{});
  EXPECT_EQ(count_of(task.graph, "muon"), 4 * 6);
  EXPECT_GT(count_of(task.graph, "adamw"), 0);
  check_all(task, every_nth(plans_of_language_models(), 6, 1));
}
TEST(LongEquality, GptWithMuon) {
  check_all(language_task(tiny_model(), kTinyBatch, Muon{}), plans_of_language_models());
}

// Experts are separate matrices, which stay where they are.
TEST(Equality, MixtureOfExpertsWithMuon) {
  check_all(language_task(tiny_experts(), kTinyBatch, Muon{}), every_nth(plans_of_experts(), 2, 0));
}

TEST(Equality, LlamaWithLion) {
  check_all(language_task(tiny_model(Family::Llama), kTinyBatch, Lion{}),
            every_nth(plans_of_language_models(), 6, 3));
}
TEST(LongEquality, LlamaWithLion) {
  check_all(language_task(tiny_model(Family::Llama), kTinyBatch, Lion{}),
            plans_of_language_models());
}

Task example_task(const Model& model, const Numbers& inputs) {
  Task task;
  task.graph = example_training(model);
  task.names = dim_names(task.graph);
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0, 0.3);
  for (const ModelParameter& parameter : model.parameters) {
    std::vector<double>& numbers = task.first[parameter.name];
    numbers.resize(static_cast<std::size_t>(parameter.type.shape.element_count()));
    std::ranges::generate(numbers, [&] { return normal(random); });
  }
  for (int step = 0; step < kComparedSteps; ++step) {
    Numbers batch = inputs;
    batch["step"] = {step + 1.0};
    batch["learning_rate"] = {0.05};
    task.batches.push_back(std::move(batch));
  }
  return task;
}

std::vector<double> drawn(std::size_t count, int below) {
  std::mt19937_64 random(11);
  std::vector<double> numbers(count);
  std::normal_distribution<double> normal(0, 1);
  std::uniform_int_distribution<int> whole(0, std::max(below - 1, 0));
  std::ranges::generate(numbers, [&] { return below > 0 ? whole(random) : normal(random); });
  return numbers;
}

// A loss for each micro-batch is known when its forward pass is, so that any schedule runs.
TEST(Equality, LoadBalancingLossAcrossMicrobatches) {
  ModelConfig config = tiny_experts();
  config.balance_loss = 0.1;
  config.balance_groups = 2;
  check_all(language_task(config, kTinyBatch),
            {{.mesh = "", .microbatches = 2},
             {.mesh = "pipe=2", .microbatches = 2},
             {.mesh = "pipe=2", .microbatches = 2, .schedule = "zb-h1"},
             {.mesh = "data=2", .microbatches = 2},
             {.mesh = "data=2,pipe=2", .microbatches = 2, .zero = 1},
             {.mesh = "expert=2,pipe=2", .microbatches = 2},
             {.mesh = "data=2"}});
}

Task perceptron_task() {
  return example_task(tiny_perceptron(), {{"x", drawn(35, 0)}, {"targets", drawn(21, 0)}});
}
TEST(Equality, Perceptron) {
  check_all(perceptron_task(), plans_of_examples());
}

Task conv_net_task() {
  return example_task(tiny_conv_net(),
                      {{"images", drawn(6 * 2 * 64, 0)}, {"targets", drawn(6, 5)}});
}
TEST(Equality, ConvNet) {
  check_all(conv_net_task(), plans_of_examples());
}

// On isolated devices: in the short test plans that have every kind of exchange, alone and overlapped.

MakeDevice isolated() {
  return [make = isolated_devices()] { return make({}); };
}

TEST(IsolatedEquality, Gpt) {
  check_all(gpt_task(), every_nth(plans_of_language_models(), 8, 0), isolated());
}
TEST(LongIsolatedEquality, Gpt) {
  check_all(gpt_task(), plans_of_language_models(), isolated());
}

TEST(IsolatedEquality, Llama) {
  check_all(llama_task(), every_nth(plans_of_language_models(), 8, 4), isolated());
}
TEST(LongIsolatedEquality, Llama) {
  check_all(llama_task(), plans_of_language_models(), isolated());
}

TEST(LongIsolatedEquality, GptWithDropoutAndRecomputation) {
  check_with_dropout_and_recomputation(plans_of_language_models(), isolated());
}

TEST(IsolatedEquality, MixtureOfExperts) {
  check_all(language_task(tiny_experts(), kTinyBatch), every_nth(plans_of_experts(), 3, 0),
            isolated());
}
TEST(LongIsolatedEquality, MixtureOfExperts) {
  check_all(language_task(tiny_experts(), kTinyBatch), plans_of_experts(), isolated());
}

TEST(LongIsolatedEquality, Perceptron) {
  check_all(perceptron_task(), plans_of_examples(), isolated());
}

TEST(LongIsolatedEquality, ConvNet) {
  check_all(conv_net_task(), plans_of_examples(), isolated());
}

// With everything that an accelerator fuses; the CPU runs those ops by reference.

MakeDevice fusing() {
  return [make = isolated_devices({.fusions = kAllFusions})] { return make({}); };
}

TEST(FusedEquality, Gpt) {
  check_all(gpt_task(), every_nth(plans_of_language_models(), 8, 2), fusing());
}
TEST(LongFusedEquality, Gpt) {
  check_all(gpt_task(), plans_of_language_models(), fusing());
}

TEST(FusedEquality, Llama) {
  check_all(llama_task(), every_nth(plans_of_language_models(), 8, 6), fusing());
}
TEST(LongFusedEquality, Llama) {
  check_all(llama_task(), plans_of_language_models(), fusing());
}

TEST(FusedEquality, GptWithDropoutAndRecomputation) {
  check_with_dropout_and_recomputation(every_nth(plans_of_language_models(), 8, 3), fusing());
}
TEST(LongFusedEquality, GptWithDropoutAndRecomputation) {
  check_with_dropout_and_recomputation(plans_of_language_models(), fusing());
}

TEST(FusedEquality, MixtureOfExperts) {
  check_all(language_task(tiny_experts(), kTinyBatch), every_nth(plans_of_experts(), 4, 1),
            fusing());
}
TEST(LongFusedEquality, MixtureOfExperts) {
  check_all(language_task(tiny_experts(), kTinyBatch), plans_of_experts(), fusing());
}

TEST(LongFusedEquality, Perceptron) {
  check_all(perceptron_task(), plans_of_examples(), fusing());
}

TEST(LongFusedEquality, ConvNet) {
  check_all(conv_net_task(), plans_of_examples(), fusing());
}

/// Instructions of an op.
std::int64_t count_of(const Program& program, std::string_view op) {
  return std::ranges::count_if(program.instructions,
                               [&](const Instruction& i) { return i.op->name == op; });
}

void expect_packed(const Task& task, const Case& c) {
  SCOPED_TRACE(describe(c));
  for (const Program& program : programs_of(task.graph, plan_of(c), task.names, kAllFusions)) {
    EXPECT_GT(count_of(program, "attention_packed"), 0);
    EXPECT_GT(count_of(program, "attention_packed_backward"), 0);
    EXPECT_EQ(count_of(program, "attention"), 0);
    EXPECT_EQ(count_of(program, "attention_backward"), 0);
  }
}

// Every rank packs its heads, regardless of what else the plan shards, unless it exchanges keys or, where they are small, their
// gradients.
TEST(FusedEquality, ProjectionsArePackedOnEveryRank) {
  for (const Task& task : {gpt_task(), llama_task()}) {
    for (const Case& c : std::vector<Case>{
             {.mesh = ""},
             {.mesh = "", .microbatches = 3, .recompute = RecomputeMode::Selective},
             {.mesh = "data=2", .microbatches = 2, .zero = 3, .recompute = RecomputeMode::Full},
             {.mesh = "tensor=2"},
             {.mesh = "pipe=2", .microbatches = 4, .schedule = "zb-h1"},
             {.mesh = "data=2,pipe=2,tensor=2",
             .microbatches = 2,
             .zero = 1,
             .recompute = RecomputeMode::Selective}}) {
      expect_packed(task, c);
    }
  }
  expect_packed(gpt_task(), {.mesh = "tensor=2", .sequence = true});
}

}  // namespace
}  // namespace trireme
