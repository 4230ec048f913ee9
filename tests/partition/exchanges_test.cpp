// The communication that the partitioner must derive for each kind of parallelism, counted in the graph of a rank.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "on_ranks.h"
#include "trireme/communication.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/op.h"
#include "trireme/program.h"
#include "trireme/training.h"
#include "two_products.h"

namespace trireme {
namespace {

/// "all_reduce forward" and its count.
Counts exchanges_in(const Graph& graph) {
  Counts counts;
  for (const Node& node : graph.nodes()) {
    if (node.op->communicates) {
      ++counts[fmt::format("{} {}", node.op->name, to_text(node.phase))];
    }
  }
  return counts;
}

RankGraph rank_zero(const Graph& graph, const Plan& plan, const DimNames& names) {
  const PlacementSpec placements = resolve_placements(graph, plan, names);
  const Partition partition(graph, placements);
  return partition.graph_at(place_of(plan, placements, 0), table_of(plan));
}

Plan plan_on(std::string_view mesh) {
  Plan plan;
  plan.mesh = parse_mesh(mesh);
  return plan;
}

Graph gpt(std::int64_t layers, std::int64_t sequences = 4) {
  ModelConfig config = preset_model("gpt-nano");
  config.layers = layers;
  config.width = 16;
  config.heads = 4;
  config.key_heads = 4;
  config.head_width = 4;
  config.hidden = 64;
  config.vocabulary = 32;
  config.context = 8;
  return make_training_graph(make_model(config, {.sequences = sequences, .length = 8}).graph);
}

const TensorType kSecondWeight{DType::F32, {8, 6}};

// Columns of W1, then rows of W2.
TEST(Exchanges, ColumnThenRowNeedsOneAllReduce) {
  const DimNames names{{"w1", {"width", "hidden"}}, {"w2", {"hidden", "width"}}};
  for (const char* between : {"", "gelu"}) {
    const RankGraph mine =
        rank_zero(two_products(between, kSecondWeight), plan_on("tensor=2"), names);
    EXPECT_EQ(exchanges_in(mine.graph), (Counts{{"all_reduce forward", 1}})) << to_text(mine.graph);
    EXPECT_EQ(mine.graph.value(mine.graph.find("w1")).type.shape, (Shape{6, 4}));
    EXPECT_EQ(mine.graph.value(mine.graph.find("w2")).type.shape, (Shape{4, 6}));
  }
}

// Rows of W1 leave partial sums; the function in between must wait for the all-reduce.
TEST(Exchanges, RowSplitIsReducedBeforeActivation) {
  const DimNames names{{"w1", {"hidden", "width"}}};
  const RankGraph mine = rank_zero(two_products("gelu", kSecondWeight), plan_on("tensor=2"), names);
  EXPECT_EQ(exchanges_in(mine.graph), (Counts{{"all_reduce forward", 1}}));
  std::size_t reduced = 0;
  std::size_t activated = 0;
  for (std::size_t n = 0; n < mine.graph.nodes().size(); ++n) {
    reduced = mine.graph.nodes()[n].op->name == "all_reduce" ? n : reduced;
    activated = mine.graph.nodes()[n].op->name == "gelu" ? n : activated;
  }
  EXPECT_LT(reduced, activated) << to_text(mine.graph);
}

/// gelu(x), in the same doubles on one device.
std::vector<double> gelu_of(const std::vector<double>& x) {
  GraphBuilder b("gelu");
  const auto size = static_cast<std::int64_t>(x.size());
  b.output("y", b.add1("gelu", {b.input("x", {DType::F64, {size}})}));
  return evaluate_alone(b.finish(), {{"x", x}}).at("y");
}

// Why it must wait: Y = gelu(X1 A1 + X2 A2), and the sum of gelu(X1 A1) and gelu(X2 A2) is something else.
TEST(Exchanges, ActivationOfPartialSumsDiffersFromActivationOfSum) {
  const std::vector<double> first{1.0, -2.0, 0.5};   // X1 A1
  const std::vector<double> second{-3.0, 1.5, 0.5};  // X2 A2
  std::vector<double> sum(first.size());
  std::ranges::transform(first, second, sum.begin(), std::plus<>());
  const std::vector<double> right = gelu_of(sum);
  const std::vector<double> a = gelu_of(first);
  const std::vector<double> b = gelu_of(second);
  for (std::size_t i = 0; i < right.size(); ++i) {
    EXPECT_GT(std::abs(a[i] + b[i] - right[i]), 0.05) << i;
  }
}

/// The same axis shards the batch and the hidden width of feed-forward layers.
Plan sharded_feed_forward(std::string_view mesh) {
  Plan plan = plan_on(mesh);
  plan.sharding = {{"ffn", {"batch", "hidden"}}};
  return plan;
}

// Attention is data-parallel; the feed-forward layers are sharded over the same ranks, and tokens move to them: an
// all-gather before each and a reduce-scatter after it. The backward pass does the same with the gradients, and gathers
// the tokens again instead of keeping all of them.
TEST(Exchanges, TokensMoveToShardedFeedForwardLayers) {
  constexpr std::int64_t kLayers = 3;
  const Graph graph = gpt(kLayers);
  const RankGraph mine = rank_zero(graph, sharded_feed_forward("ffn=2"), dim_names(graph));
  const Counts counts = exchanges_in(mine.graph);
  EXPECT_EQ(counts.at("all_gather forward"), kLayers) << to_text(mine.graph);
  EXPECT_EQ(counts.at("reduce_scatter forward"), kLayers) << to_text(mine.graph);
  EXPECT_EQ(counts.at("all_gather backward"), 2 * kLayers) << to_text(mine.graph);
  EXPECT_EQ(counts.at("reduce_scatter backward"), kLayers) << to_text(mine.graph);
  for (const Value& value : mine.graph.values()) {
    if (value.origin == Origin::Parameter &&
        value.name.find("mlp.c_fc.weight") != std::string::npos) {
      EXPECT_EQ(value.type.shape, (Shape{16, 32})) << value.name;
    }
  }
}

/// What a rank sends in a step; with the program's inputs, samples or anything made of them, in one message, it fails.
double sent_without_samples(const Program& program, std::int64_t samples) {
  double bytes = 0;
  for (const CommunicationUse& use : communication_of(program)) {
    EXPECT_NE(use.carries.category, Category::Input) << use.op << " of " << use.carries.tensor;
    if (use.carries.category ==
        Category::Activation) {  // the loss, and terms of the gradients' norm
      EXPECT_LT(use.bytes, static_cast<double>(samples * 8)) << use.op << " " << use.carries.tensor;
    }
    bytes += use.sent();
  }
  return bytes;
}

// Data stays on its rank: what a data-parallel step sends are gradients, parameters and a few numbers, as many bytes for
// 64 sequences on a rank as for 2.
TEST(Exchanges, DataParallelRanksSendNoSamples) {
  for (const int zero : {0, 1, 2, 3}) {
    Plan plan = plan_on("data=2");
    plan.zero = zero;
    const auto programs = [&](std::int64_t sequences) {
      const Graph graph = gpt(2, sequences);
      return programs_of(graph, plan, dim_names(graph));
    };
    const std::vector<Program> few = programs(4);
    const std::vector<Program> many = programs(128);
    for (std::size_t rank = 0; rank < few.size(); ++rank) {
      EXPECT_EQ(sent_without_samples(many[rank], 64 * 8), sent_without_samples(few[rank], 64 * 8));
    }
  }
}

// One all-reduce for attention and one for the MLP, forward (g) and backward (f). With the vocabulary sharded as well:
// one for the embedding and two small ones for the loss, and in the backward one for the input of the logits. And one
// for the terms of the gradients' norm, all in one.
TEST(Exchanges, TensorParallelBlocksNeedOneAllReduceEachWay) {
  for (const std::int64_t layers : {1, 3}) {
    const RankGraph mine = rank_zero(gpt(layers), plan_on("tensor=2"), dim_names(gpt(layers)));
    const int each = 2 * static_cast<int>(layers);
    EXPECT_EQ(exchanges_in(mine.graph), (Counts{{"all_reduce forward", each + 3},
                                                {"all_reduce backward", each + 1},
                                                {"all_reduce update", 1}}))
        << to_text(mine.graph);
  }
}

// A vocabulary of 32 over 3 ranks: each has the rows of its shard of the table, the logits for them, and their
// gradients. What is reduced over ranks is as long as the activations, or as the rows: the maximum logit of each, and
// both sums together.
TEST(Exchanges, VocabularyIsNeverGathered) {
  constexpr std::int64_t kRows = 4 * 8;
  constexpr std::int64_t kWidth = 16;
  const Graph graph = gpt(1);
  const RankGraph mine = rank_zero(graph, plan_on("tensor=3"), dim_names(graph));
  EXPECT_EQ(mine.graph.value(mine.graph.find("wte.weight")).type.shape, (Shape{11, kWidth}));
  for (const Value& value : mine.graph.values()) {
    const std::vector<std::int64_t>& dims = value.type.shape.dims();
    const bool logits = dims.size() == 3 && dims[0] * dims[1] == kRows;
    EXPECT_FALSE(logits && dims[2] == 32) << value.name << " " << to_text(value.type);
    EXPECT_NE(value.type.shape, (Shape{32, kWidth})) << value.name;
  }
  std::map<std::string, std::vector<std::int64_t>> reduced;  // elements, by phase
  for (const Node& node : mine.graph.nodes()) {
    EXPECT_NE(node.op->name, "all_gather");
    if (node.op->name == "all_reduce") {
      reduced[std::string(to_text(node.phase))].push_back(
          mine.graph.value(node.inputs[0]).type.shape.element_count());
    }
  }
  const std::int64_t whole = kRows * kWidth;
  EXPECT_EQ(reduced["forward"], (std::vector<std::int64_t>{whole, whole, whole, kRows, 2 * kRows}));
  EXPECT_EQ(reduced["backward"], (std::vector<std::int64_t>{whole, whole, whole}));
}

// With the sequence sharded, each all-reduce becomes a reduce-scatter and an all-gather with equal bytes, also for the
// embedding and the input of the logits; the two small ones of the loss stay.
TEST(Exchanges, SequenceParallelismReplacesAllReduces) {
  Plan plan = plan_on("tensor=2");
  plan.sequence = true;
  const RankGraph mine = rank_zero(gpt(2), plan, dim_names(gpt(2)));
  const Counts counts = exchanges_in(mine.graph);
  EXPECT_EQ(counts.at("reduce_scatter forward"), 4 + 1) << to_text(mine.graph);
  EXPECT_EQ(counts.at("all_gather forward"), 4 + 1);
  EXPECT_EQ(counts.at("all_reduce forward"), 2);
  // The gradient of the input of the logits, and the gradient of the table's rows.
  EXPECT_EQ(counts.at("reduce_scatter backward"), 4 + 1 + 1);
  // Incoming gradients, for two products in each block; operands that the weight gradients need again, for two, and for
  // the logits; and the gradient of the positions.
  EXPECT_EQ(counts.at("all_gather backward"), 4 + 4 + 1 + 1);
  EXPECT_EQ(counts.at("all_reduce backward"), 1) << "norms and biases, together";
}

TEST(Exchanges, DataParallelReducesEachGradientOnce) {
  const Graph graph = gpt(2);
  const RankGraph mine = rank_zero(graph, plan_on("data=2"), dim_names(graph));
  const Counts counts = exchanges_in(mine.graph);
  std::int64_t elements = 0;
  for (const Node& node : mine.graph.nodes()) {
    if (node.op->name == "all_reduce" && node.phase == Phase::Backward) {
      elements += mine.graph.value(node.inputs[0]).type.shape.element_count();
    }
  }
  std::int64_t parameters = 0;
  for (const ValueId id : graph.with_origin(Origin::Parameter)) {
    parameters += graph.value(id).type.shape.element_count();
  }
  EXPECT_EQ(elements, parameters);
  EXPECT_FALSE(counts.contains("all_reduce forward"));
  EXPECT_EQ(counts.at("all_reduce update"), 1) << "the loss, a scalar";
}

/// Elements that a rank sends in a step for parameters and gradients along data, by the lower bounds.
double zero_volume(int level) {
  const Graph graph = gpt(2);
  Plan plan = plan_on("data=2");
  plan.zero = level;
  const RankGraph mine = rank_zero(graph, plan, dim_names(graph));
  double elements = 0;
  for (const Node& node : mine.graph.nodes()) {
    const auto size = [&](ValueId id) {
      return static_cast<double>(mine.graph.value(id).type.shape.element_count());
    };
    if (node.op->name == "all_reduce" && size(node.inputs[0]) > 100) {
      elements += size(node.inputs[0]);  // 2 (p-1)/p of it
    } else if (node.op->name == "all_gather") {
      elements += size(node.outputs[0]) / 2;
    } else if (node.op->name == "reduce_scatter") {
      elements += size(node.inputs[0]) / 2;
    }
  }
  return elements;
}

// Volumes 1, 1, 1 and 1.5 of data parallelism's; slightly less, because the backward does not read biases and
// positions.
TEST(Exchanges, ZeroLevelsMatchPublishedVolumes) {
  const double plain = zero_volume(0);
  EXPECT_NEAR(zero_volume(1) / plain, 1, 0.01);
  EXPECT_NEAR(zero_volume(2) / plain, 1, 0.01);
  EXPECT_LE(zero_volume(3) / plain, 1.5);
  EXPECT_GE(zero_volume(3) / plain, 1.45);
}

/// A rank's peak memory with this many ranks along data, by category, in units of the parameters.
struct Held {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double scratch = 0;
};
Held held_at(int level, int ranks) {
  ModelConfig config = preset_model("gpt-nano");
  config.layers = 16;
  config.width = 32;
  config.vocabulary = 32;
  config.context = 4;
  const Graph graph = make_training_graph(make_model(config, {.sequences = 4, .length = 4}).graph);
  Plan plan = plan_on(fmt::format("data={}", ranks));
  plan.zero = level;
  double parameters = 0;
  for (const ValueId id : graph.with_origin(Origin::Parameter)) {
    parameters += static_cast<double>(size_of(graph.value(id).type).count);
  }
  const MemoryUse use = memory_use(make_program(rank_zero(graph, plan, dim_names(graph)).graph));
  const auto share = [&](Category category) {
    return static_cast<double>(use.at_peak.at(static_cast<std::size_t>(category)).count) /
           parameters;
  };
  return {.parameters = share(Category::Parameter),
          .gradients = share(Category::Gradient),
          .optimizer = share(Category::Optimizer),
          .scratch = share(Category::Communication)};
}

// In units of the parameters: 1 + 1 + 2; the optimizer's 2, the gradient's 1 and the parameter's 1 are sharded. For
// communication, the tensors of a block or two more, not all.
TEST(Exchanges, ZeroLevelsMatchPublishedMemory) {
  constexpr int kRanks = 4;
  constexpr double kPart = 1.0 / kRanks;
  constexpr double kBlock = 1.0 / 16;
  for (const int level : {0, 1, 2, 3}) {
    const Held held = held_at(level, kRanks);
    EXPECT_NEAR(held.parameters, level < 3 ? 1 : kPart, 0.01) << level;
    EXPECT_NEAR(held.optimizer, level < 1 ? 2 : 2 * kPart, 0.02) << level;
    if (level > 0) {
      EXPECT_LE(held.gradients, kPart + 2 * kBlock) << level;
      EXPECT_LE(held.scratch, 3 * kBlock) << level;
    }
  }
}

// Tokens go to their experts and back, and so do the gradients: 2 + 2 in each block, with the full capacity.
TEST(Exchanges, ExpertsNeedTwoAllToAllsEachWay) {
  ModelConfig config = preset_model("gpt-nano");
  config.layers = 2;
  config.width = 16;
  config.vocabulary = 32;
  config.context = 8;
  config.experts = 4;
  const Graph graph = make_training_graph(make_model(config, {.sequences = 4, .length = 8}).graph);
  const RankGraph mine = rank_zero(graph, plan_on("expert=2"), dim_names(graph));
  const Counts counts = exchanges_in(mine.graph);
  EXPECT_EQ(counts.at("all_to_all forward"), 4) << to_text(mine.graph);
  EXPECT_EQ(counts.at("all_to_all backward"), 4);
  EXPECT_FALSE(counts.contains("all_gather forward"));
  EXPECT_FALSE(counts.contains("all_gather backward"));
}

// Queries, keys, values and the result, and their gradients.
TEST(Exchanges, AttentionExchangesHeads) {
  Plan plan = plan_on("context=2");
  plan.context = Plan::Context::AllToAll;
  const RankGraph mine = rank_zero(gpt(1), plan, dim_names(gpt(1)));
  const Counts counts = exchanges_in(mine.graph);
  EXPECT_EQ(counts.at("all_to_all forward"), 4) << to_text(mine.graph);
  EXPECT_EQ(counts.at("all_to_all backward"), 4);
  EXPECT_FALSE(counts.contains("all_gather forward"));
}

/// bf16 weights are the rounding of f32 master copies. Each rank rounds its shard and gathers the result along data
/// only: nothing is gathered along tensor, and nothing in f32.
TEST(Exchanges, MasterWeightsAreRoundedInShards) {
  ModelConfig config = preset_model("gpt-nano");
  config.dtype = DType::BF16;
  TrainingOptions options;
  options.master_weights = true;
  const Graph graph =
      make_training_graph(make_model(config, {.sequences = 4, .length = 8}).graph, options);
  Plan plan = plan_on("data=2,tensor=2");
  plan.zero = 1;
  const Graph mine = rank_zero(graph, plan, dim_names(graph)).graph;
  int gathers = 0;
  for (const Node& node : mine.nodes()) {
    if (node.op->name == "all_gather" && node.phase == Phase::Update) {
      EXPECT_EQ(std::get<std::string>(node.attributes.at("group")), "data");
      EXPECT_EQ(mine.value(node.inputs[0]).type.dtype, DType::BF16);
      ++gathers;
    }
  }
  EXPECT_GT(gathers, 0);
}

}  // namespace
}  // namespace trireme
