// The closed forms: parts that add up, limits that are known, and pipelines as their tables have them.
#include "trireme/cost.h"

#include <numeric>

#include <gtest/gtest.h>

#include "trireme/collective.h"
#include "trireme/error.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

Architecture small_gpt() {
  Architecture a;
  a.model = {.name = "test",
             .family = Family::Gpt2,
             .vocabulary = 51200,
             .context = 2048,
             .width = 4096,
             .layers = 32,
             .heads = 32,
             .key_heads = 32,
             .head_width = 128,
             .hidden = 16384};
  return a;
}

TransformerCost cost_on(int nodes, const Workload& work = {.batch = 256}) {
  const Cluster cluster = cluster_preset("dgx-a100:" + std::to_string(nodes));
  return {small_gpt(), work, cluster, efficiency_of(cluster)};
}

const std::vector<ParallelLayout>& layouts() {
  static const std::vector<ParallelLayout> all{
      {.data = 64},
      {.data = 8, .tensor = 8},
      {.data = 8, .tensor = 4, .pipe = 2},
      {.data = 4, .tensor = 2, .pipe = 8, .microbatch = 2, .recompute = RecomputeMode::Full},
      {.data = 64, .zero = 3},
      {.data = 8, .tensor = 2, .pipe = 4, .zero = 1, .recompute = RecomputeMode::Selective},
      {.data = 8, .tensor = 1, .pipe = 4, .context = 2},
      {.data = 8, .pipe = 8, .chunks = 4, .schedule = PipelineForm::Interleaved},
      {.data = 8, .pipe = 8, .schedule = PipelineForm::ZbH1},
      {.data = 4, .tensor = 16, .sequence = true}};
  return all;
}

TEST(StepCost, ContentionSlowsTensorGroupsThatShareNode) {
  Cluster cluster = cluster_preset("dgx-a100:8");
  cluster.efficiency = efficiency_of(cluster);
  const Workload work{.batch = 256};
  const TransformerCost calm(small_gpt(), work, cluster, *cluster.efficiency);
  cluster.efficiency->contention = 0.1;
  const TransformerCost busy(small_gpt(), work, cluster, *cluster.efficiency);
  for (const int tensor : {1, 2, 4, 8, 16}) {
    const ParallelLayout layout{.data = 64 / tensor, .tensor = tensor};
    const bool shares = tensor == 2 || tensor == 4;
    const BlockCost before = calm.blocks(layout).dense;
    const BlockCost after = busy.blocks(layout).dense;
    const double pass = before.compute() + before.launch + before.tensor;
    EXPECT_NEAR(after.tensor - before.tensor, shares ? 0.1 * pass : 0, 1e-12) << tensor;
  }
}

TEST(StepCost, OneRingOverAllRanksMovesEveryParameterThroughOnePort) {
  const ParallelLayout layout{.data = 64, .zero = 3};
  const Workload exposed{.batch = 64, .overlap_data = false};
  Workload flat = exposed;
  flat.flat_gathers = true;
  const TransformerCost cost = cost_on(8, flat);
  const Cluster& cluster = cost.cluster();
  const double parameters = static_cast<double>(count_parameters(small_gpt()).total());
  const double port = cluster.links.back().beta.count / cost.efficiency().network_links;
  const double bytes = parameters * (2 * 2 + 4) * 63 / 64;
  EXPECT_NEAR(cost.step(layout).part(TimePart::Data), bytes * port, 0.1 * bytes * port);
  EXPECT_LT(cost_on(8, exposed).step(layout).part(TimePart::Data), 0.5 * bytes * port);
}

TEST(StepCost, PartsSumToStep) {
  const TransformerCost cost = cost_on(8);
  for (const ParallelLayout& layout : layouts()) {
    const StepCost step = cost.step(layout);
    EXPECT_NEAR(std::accumulate(step.time.begin(), step.time.end(), 0.0), step.seconds,
                1e-12 * step.seconds);
    for (int i = 0; i < kTimeParts; ++i) {
      EXPECT_GE(step.time[static_cast<std::size_t>(i)], -1e-12)
          << mesh_text(layout) << " " << to_text(static_cast<TimePart>(i));
    }
    EXPECT_GT(step.mfu(), 0.05) << mesh_text(layout);
    EXPECT_LT(step.hfu(), 1) << mesh_text(layout);
  }
}

TEST(StepCost, ModelFlopsMatchEstimate) {
  const TransformerCost cost = cost_on(8);
  const double expected = training_flops(small_gpt(), 2048).model * 256 * 2048;
  for (const ParallelLayout& layout : layouts()) {
    EXPECT_NEAR(cost.step(layout).model_flops, expected, 1e-9 * expected) << mesh_text(layout);
  }
}

/// Without launches.
Efficiency pipeline_only() {
  Efficiency e = default_efficiency("a100");
  e.launch = {0};
  return e;
}

TEST(StepCost, PipelineTimeMatchesTable) {
  const Architecture model = small_gpt();
  Cluster cluster = cluster_preset("dgx-a100:1");
  cluster.links.front().alpha = {0};
  cluster.links.front().beta = {1e-30};
  const TransformerCost cost(model, {.batch = 16, .attention = Workload::Attention::Unfused},
                             cluster, pipeline_only());
  for (const PipelineForm form : {PipelineForm::Gpipe, PipelineForm::OneFOneB}) {
    const ParallelLayout layout{.pipe = 8, .schedule = form};
    const StepCost step = cost.step(layout);
    const TransformerCost::Blocks blocks = cost.blocks(layout);
    std::vector<PipelineDurations> stages(
        8, PipelineDurations{.forward = 4 * blocks.dense.forward,
                             .backward_input = 4 * blocks.dense.backward_input,
                             .backward_weight = 4 * blocks.dense.backward_weight});
    stages.back().forward += blocks.head_forward;
    stages.back().backward_input += blocks.head_backward;
    const PipelineTable table = make_pipeline(to_text(form), {.ranks = 8, .microbatches = 16});
    const PipelineTiming timing = time_pipeline(table, stages);
    EXPECT_NEAR(step.seconds - step.part(TimePart::Update), timing.makespan, 1e-9 * timing.makespan)
        << to_text(form);
    EXPECT_NEAR(step.part(TimePart::Bubble) / timing.makespan, timing.bubble, 1e-9)
        << to_text(form);
  }
}

/// As the times of vTrain's simulator: equal steps of layers or micro-batches add equal times.
TEST(StepCost, IsLinearInLayersAndMicrobatches) {
  const Cluster cluster = cluster_preset("dgx-a100:1");
  const auto seconds = [&](const ParallelLayout& layout, int layers, int batch) {
    Architecture model = small_gpt();
    model.model.layers = layers;
    const TransformerCost cost(model, {.batch = batch}, cluster, efficiency_of(cluster));
    return cost.step(layout).seconds;
  };
  for (const ParallelLayout& layout :
       {ParallelLayout{}, ParallelLayout{.tensor = 8}, ParallelLayout{.tensor = 2, .pipe = 4}}) {
    const double shallow = seconds(layout, 16, 16);
    const double deep = seconds(layout, 48, 16);
    EXPECT_NEAR(seconds(layout, 32, 16), (shallow + deep) / 2, 1e-9 * deep) << mesh_text(layout);
    EXPECT_GT(deep, 2 * shallow) << mesh_text(layout);
    const double longer = seconds(layout, 16, 48);
    EXPECT_NEAR(seconds(layout, 16, 32), (shallow + longer) / 2, 1e-9 * longer)
        << mesh_text(layout);
    EXPECT_GT(longer, 2 * shallow) << mesh_text(layout);
  }
}

TEST(StepCost, OneMicrobatchPassesEveryStage) {
  const Cluster cluster = cluster_preset("dgx-a100:1");
  Efficiency slow = default_efficiency("a100");
  slow.launch = {1};  // all else is negligible
  const TransformerCost cost(small_gpt(), {.batch = 1}, cluster, slow);
  const auto bubble = [&](PipelineForm form) {
    return cost.step({.pipe = 8, .schedule = form}).bubble();
  };
  // Of 8 stages only one computes at a time, but for the gradients of weights, which are less than a third.
  EXPECT_NEAR(bubble(PipelineForm::OneFOneB), 7.0 / 8, 0.01);
  EXPECT_GT(bubble(PipelineForm::ZbH1), 0.8);
  EXPECT_LT(bubble(PipelineForm::ZbH1), bubble(PipelineForm::OneFOneB));
  EXPECT_GE(bubble(PipelineForm::ZbV), 0.8);
}

TEST(StepCost, BubbleOfEqualStagesMatchesPublication) {
  Architecture model = small_gpt();
  model.model.vocabulary = 8;  // aligned, and as good as none
  const Cluster cluster = cluster_preset("dgx-a100:1");
  const TransformerCost cost(model, {.batch = 24}, cluster, pipeline_only());
  const auto bubble = [&](const ParallelLayout& layout) {
    const StepCost step = cost.step(layout);
    return step.part(TimePart::Bubble) /
           (step.seconds - step.part(TimePart::Update) - step.part(TimePart::Pipe));
  };
  EXPECT_NEAR(bubble({.pipe = 8, .microbatch = 1}), 7.0 / (24 + 7), 1e-3);
  EXPECT_NEAR(
      bubble({.pipe = 8, .microbatch = 1, .chunks = 2, .schedule = PipelineForm::Interleaved}),
      7.0 / (2 * 24 + 7), 1e-3);
  EXPECT_NEAR(bubble({.pipe = 8, .microbatch = 24, .schedule = PipelineForm::Naive}), 7.0 / 8,
              1e-3);
}

TEST(StepCost, ZeroShardsMemoryAsPublished) {
  // Rajbhandari et al. 2020: 7.5 B parameters on 64 devices, 16-bit gradients: 120, 31.4, 16.6 and 1.88 GB.
  Architecture model = small_gpt();
  model.model.layers = 36;
  const Cluster cluster = cluster_preset("dgx-a100:8");
  const TransformerCost cost(model, {.batch = 64, .recipe = {.gradient_bytes = 2}}, cluster,
                             efficiency_of(cluster));
  const auto gigabytes = [&](int zero) {
    const StepCost step = cost.step({.data = 64, .zero = zero});
    const auto part = [&](CostedMemory p) { return step.memory[static_cast<std::size_t>(p)]; };
    const double parameters = static_cast<double>(count_parameters(model).total());
    return (part(CostedMemory::Parameters) + part(CostedMemory::Gradients) +
            part(CostedMemory::OptimizerState)) /
           parameters * 7.5;
  };
  EXPECT_NEAR(gigabytes(0), 120, 1);
  EXPECT_NEAR(gigabytes(1), 31.4, 0.3);
  EXPECT_NEAR(gigabytes(2), 16.6, 0.2);
  EXPECT_NEAR(gigabytes(3), 1.88, 0.02);
}

TEST(StepCost, RecomputationTradesTimeForMemory) {
  const TransformerCost cost =
      cost_on(8, {.batch = 256, .attention = Workload::Attention::Unfused});
  ParallelLayout layout{.data = 8, .tensor = 8};
  const StepCost none = cost.step(layout);
  layout.recompute = RecomputeMode::Selective;
  const StepCost selective = cost.step(layout);
  layout.recompute = RecomputeMode::Full;
  const StepCost full = cost.step(layout);
  EXPECT_LT(none.seconds, selective.seconds);
  EXPECT_LT(selective.seconds, full.seconds);
  EXPECT_GT(none.memory_bytes(), selective.memory_bytes());
  EXPECT_GT(selective.memory_bytes(), full.memory_bytes());
  EXPECT_DOUBLE_EQ(none.mfu(), none.hfu());
  EXPECT_LT(full.mfu(), full.hfu());
}

TEST(StepCost, MemoryIsOfFullestStage) {
  const TransformerCost cost = cost_on(1);
  const auto activations = [&](ParallelLayout layout) {
    layout.pipe = 8;
    return cost.step(layout).memory[static_cast<std::size_t>(CostedMemory::Activations)];
  };
  const TransformerCost::Blocks full =
      cost.blocks({.microbatch = 8, .recompute = RecomputeMode::Full});
  // With full recomputation the first stage keeps little, and the logits of the last one are larger.
  EXPECT_DOUBLE_EQ(activations({.microbatch = 8, .recompute = RecomputeMode::Full}),
                   4 * full.dense.activation_bytes + full.dense.working_bytes + full.head_bytes);
  const TransformerCost::Blocks none = cost.blocks({});
  EXPECT_DOUBLE_EQ(activations({}), 8 * 4 * none.dense.activation_bytes + none.dense.working_bytes);
  EXPECT_DOUBLE_EQ(
      activations({.schedule = PipelineForm::Gpipe}),
      256 * 4 * none.dense.activation_bytes + none.dense.working_bytes + none.head_bytes);
}

TEST(StepCost, MisalignedVocabulariesAreSlow) {
  const auto head = [](std::int64_t words, int tensor) {
    Architecture model = small_gpt();
    model.model.vocabulary = words;
    const Cluster cluster = cluster_preset("dgx-a100:1");
    const TransformerCost cost(model, {.batch = 8}, cluster, efficiency_of(cluster));
    const TransformerCost::Blocks blocks = cost.blocks({.tensor = tensor, .microbatch = 4});
    return blocks.head_forward + blocks.head_backward;
  };
  EXPECT_GT(head(50257, 1), 2 * head(50304, 1));
  // Shards of 25128, 12564 and 6282 words, and their padded neighbors.
  EXPECT_NEAR(head(50256, 2) / head(50304, 2), 1, 0.01);
  const double quarter = head(50256, 4) / head(50304, 4);
  EXPECT_GT(quarter, 1.2);
  EXPECT_GT(head(50256, 8) / head(50688, 8), quarter);
}

TEST(StepCost, ProductsWithFewTilesSplitDepth) {
  // The gradient of the head's input has few tiles and a depth of the whole vocabulary.
  Architecture narrow = small_gpt();
  narrow.model.width = 1024;
  narrow.model.head_width = 32;
  const Cluster cluster = cluster_preset("dgx-a100:1");
  const TransformerCost cost(narrow, {.batch = 8, .length = 1024}, cluster, efficiency_of(cluster));
  const auto per_sequence = [&](int microbatch) {
    return cost.blocks({.microbatch = microbatch}).head_backward / microbatch;
  };
  EXPECT_LT(per_sequence(1), 1.25 * per_sequence(8));
}

TEST(StepCost, EmbeddingAndHeadLaunchesCountPerMicrobatch) {
  const Cluster cluster = cluster_preset("dgx-a100:1");
  Efficiency slow = default_efficiency("a100");
  slow.launch = {1e-3};
  const TransformerCost cost(small_gpt(), {.batch = 64}, cluster, slow);
  EXPECT_NEAR(cost.blocks({.data = 8}).head_launch, 2e-3, 1e-9);
  Efficiency none = slow;
  none.launch = {0};
  const TransformerCost free(small_gpt(), {.batch = 64}, cluster, none);
  const ParallelLayout layout{.data = 8, .microbatch = 8};
  EXPECT_NEAR(cost.step(layout).part(TimePart::Launch), 2e-3, 1e-3);
  EXPECT_EQ(free.step(layout).part(TimePart::Launch), 0);
}

TEST(StepCost, RejectsUnknownPeakOrBandwidth) {
  Cluster cluster = cluster_preset("dgx-a100");
  EXPECT_THROW(TransformerCost(small_gpt(), {.dtype = "f8"}, cluster, {}), Error);
  cluster.device.memory_bandwidth.reset();
  EXPECT_THROW(TransformerCost(small_gpt(), {}, cluster, {}), Error);
}

TEST(GroupCosts, MatchScheduleTimes) {
  const Cluster cluster = cluster_preset("dgx-a100:4");
  Efficiency whole;
  whole.node_links = whole.network_links = 1;
  const GroupCosts links(cluster, whole);
  const CostModel model{
      .levels = {{.span = 8, .alpha = cluster.links[0].alpha, .beta = cluster.links[0].beta},
                 {.span = 0, .alpha = cluster.links[1].alpha, .beta = cluster.links[1].beta}},
      .gamma = cluster.gamma};
  const Payload payload{.elements = 1 << 20, .element_bytes = 4};
  const double bytes = 4 << 20;
  const Schedule inside = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 8});
  EXPECT_NEAR(links.allreduce({.ranks = 8, .per_node = 8}, bytes),
              time_schedule(inside, payload, model).seconds.count, 1e-9);
  const Schedule both =
      build(Operation::Allgather, Algorithm::TwoLevel, {.ranks = 32, .ranks_per_node = 8});
  EXPECT_NEAR(links.allgather({.ranks = 32, .per_node = 8}, bytes),
              time_schedule(both, payload, model).seconds.count, 1e-9);
}

TEST(GroupCosts, GpuCollectivesHaveStartupCost) {
  const Cluster cluster = cluster_preset("dgx-a100:1");
  const GroupCosts links(cluster, default_efficiency("a100"));
  // NCCL on A100s, as measured: 16 MiB on 2, 4 and 8 ranks of a node.
  const double bytes = 16 << 20;
  EXPECT_NEAR(links.allreduce({.ranks = 2, .per_node = 2}, bytes), 132e-6, 20e-6);
  EXPECT_NEAR(links.allreduce({.ranks = 4, .per_node = 4}, bytes), 180e-6, 20e-6);
  EXPECT_NEAR(links.allreduce({.ranks = 8, .per_node = 8}, bytes), 232e-6, 40e-6);
  EXPECT_EQ(links.allreduce({.ranks = 1, .per_node = 1}, bytes), 0);
}

TEST(GroupShape, CountsRanksPerNode) {
  EXPECT_EQ(GroupShape::of(8, 1, 8).per_node, 8);
  EXPECT_EQ(GroupShape::of(16, 1, 8).per_node, 8);
  EXPECT_EQ(GroupShape::of(16, 4, 8).per_node, 2);
  EXPECT_EQ(GroupShape::of(16, 8, 8).per_node, 1);
  EXPECT_EQ(GroupShape::of(3, 1, 8).per_node, 3);
}

TEST(PipelineForm, UsesCatalogNames) {
  for (const PipelineForm form :
       {PipelineForm::Naive, PipelineForm::Gpipe, PipelineForm::OneFOneB, PipelineForm::Interleaved,
        PipelineForm::ZbH1, PipelineForm::ZbV}) {
    EXPECT_EQ(find_pipeline_schedule(to_text(form)).name, to_text(form));
    EXPECT_EQ(parse_pipeline_form(to_text(form)), form);
  }
  EXPECT_THROW((void)parse_pipeline_form("2f2b"), Error);
}

}  // namespace
}  // namespace trireme
