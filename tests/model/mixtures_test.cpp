// Mixtures of experts and of depths, checked by the values that the nodes of their graphs compute.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "trireme/autodiff.h"
#include "trireme/error.h"
#include "trireme/model_kinds.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr BatchShape kBatch{.sequences = 2, .length = 8};
constexpr std::int64_t kTokenCount = kBatch.sequences * kBatch.length;

ModelConfig small() {
  ModelConfig config = preset_model("gpt-nano");
  config.vocabulary = 19;
  config.context = 8;
  config.width = 12;
  config.layers = 1;
  config.heads = 2;
  config.key_heads = 2;
  config.head_width = 6;
  config.hidden = 16;
  config.dtype = DType::F64;
  return config;
}

ModelConfig with_experts(std::int64_t experts, std::int64_t per_token) {
  ModelConfig config = small();
  config.experts = experts;
  config.experts_per_token = per_token;
  config.balance_loss = 0;
  config.capacity_factor = 0;
  return config;
}

Dense first_values(const ModelParameter& parameter) {
  const HostBuffer values = initial_values(parameter, 1);
  Dense made(parameter.type.shape);
  std::ranges::copy(values.as<double>(), made.data.begin());
  return made;
}

/// Initial parameters (larger routers, so that their choices are clear), tokens and targets.
Leaves leaves_of(const Model& model, std::int64_t step = 1) {
  Leaves leaves;
  for (const ModelParameter& parameter : model.parameters) {
    Dense& values = leaves[parameter.name] = first_values(parameter);
    if (parameter.name.ends_with("gate.weight") || parameter.name.ends_with("router.weight")) {
      std::ranges::transform(values.data, values.data.begin(), [](double x) { return 50 * x; });
    }
  }
  for (const char* name : {"tokens", "targets"}) {
    Dense& ids = leaves[name] = Dense({kBatch.sequences, kBatch.length});
    for (std::size_t i = 0; i < ids.data.size(); ++i) {
      ids.data[i] = static_cast<double>(i * 7 % 19);
    }
  }
  leaves["step"] = Dense(Shape{});
  leaves["step"].data[0] = static_cast<double>(step);
  return leaves;
}

/// A model that was run once.
class Ran {
 public:
  explicit Ran(const ModelConfig& config, std::int64_t step = 1)
      : Ran(make_model(config, kBatch), step) {}
  Ran(const Model& model, std::int64_t step) : Ran(model.graph, leaves_of(model, step)) {}
  Ran(Graph graph, const Leaves& leaves)
      : graph_(std::move(graph)), values_(evaluate(graph_, leaves)) {}

  [[nodiscard]] const Dense& at(ValueId id) const {
    return values_[static_cast<std::size_t>(id.index)];
  }
  [[nodiscard]] double loss() const { return at(graph_.output("loss")).data[0]; }
  /// The first node of this op.
  [[nodiscard]] const Node& node(std::string_view op) const {
    return *std::ranges::find_if(graph_.nodes(), [&](const Node& n) { return n.op->name == op; });
  }
  [[nodiscard]] const Dense& input(std::string_view op, std::size_t i) const {
    return at(node(op).inputs[i]);
  }
  [[nodiscard]] const Dense& output(std::string_view op, std::size_t i = 0) const {
    return at(node(op).outputs[i]);
  }
  /// The input of the last norm: the result of all blocks.
  [[nodiscard]] const Dense& after_blocks() const {
    const ValueId gamma = graph_.find("ln_f.weight");
    return at(std::ranges::find_if(graph_.nodes(), [&](const Node& n) {
                return n.op->name == "layer_norm" && n.inputs[1] == gamma;
              })->inputs[0]);
  }

 private:
  Graph graph_;
  std::vector<Dense> values_;
};

double sum_of_row(const Dense& values, std::size_t row) {
  const auto n = static_cast<std::ptrdiff_t>(values.shape.dims().back());
  const auto begin = values.data.begin() + static_cast<std::ptrdiff_t>(row) * n;
  return std::accumulate(begin, begin + n, 0.0);
}

/// The coefficient of variation of how many tokens chose each expert.
double load_variation(const Ran& ran) {
  const Dense& load = ran.output("expert_load");
  const auto count = static_cast<double>(load.data.size());
  const double mean = std::accumulate(load.data.begin(), load.data.end(), 0.0) / count;
  double square = 0;
  for (const double one : load.data) {
    square += (one - mean) * (one - mean) / count;
  }
  return std::sqrt(square) / mean;
}

/// A model whose router sees the same in all tokens, so that all make the same choice.
Leaves alike(const Model& model, std::int64_t step = 1) {
  Leaves leaves = leaves_of(model, step);
  std::ranges::fill(leaves["tokens"].data, 3.0);
  std::ranges::fill(leaves["wpe.weight"].data, 0.0);
  return leaves;
}

TEST(MixtureOfExperts, GateOrdersAgreeOnceNormalized) {
  ModelConfig config = with_experts(4, 2);
  config.gate_order = GateOrder::TopKFirst;
  const Ran top_k(config);
  config.gate_order = GateOrder::SoftmaxFirst;
  const Ran softmax(config);
  const Dense& gates = top_k.input("expert_combine", 2);
  const Dense& shares = softmax.input("expert_combine", 2);
  for (std::size_t n = 0; n < kTokenCount; ++n) {
    EXPECT_NEAR(sum_of_row(gates, n), 1, 1e-12);
    EXPECT_LT(sum_of_row(shares, n), 1);
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_NEAR(shares.data[2 * n + k] / sum_of_row(shares, n), gates.data[2 * n + k], 1e-12);
    }
  }
  EXPECT_EQ(top_k.output("top_k", 1).data, softmax.output("top_k", 1).data);
}

/// With one expert per token, the gate is 1 if the softmax comes last, and no gradient reaches the router.
TEST(MixtureOfExperts, TopOneNeedsSoftmaxFirst) {
  const auto largest_gradient = [](std::optional<GateOrder> order) {
    ModelConfig config = with_experts(4, 1);
    config.gate_order = order;
    const Model model = make_model(config, kBatch);
    const ValueId router = model.graph.find("h.0.block_sparse_moe.gate.weight");
    const Gradients found = add_gradients(model.graph, model.graph.output("loss"), {router});
    const Dense gradient = Ran(found.graph, leaves_of(model)).at(found.values[0]);
    return std::ranges::max(gradient.data, {}, [](double x) { return std::abs(x); });
  };
  EXPECT_EQ(largest_gradient(GateOrder::TopKFirst), 0);
  EXPECT_NE(largest_gradient(GateOrder::SoftmaxFirst), 0);
  EXPECT_NE(largest_gradient(std::nullopt), 0);
}

TEST(MixtureOfExperts, DropsTokensOverCapacity) {
  ModelConfig config = with_experts(4, 1);
  config.capacity_factor = 1.25;  // ceil(8 / 4 1.25) = 3 slots for each of two sequences
  const Model model = make_model(config, kBatch);
  const Ran full(model.graph, alike(model));
  const Dense& slots = full.output("expert_slots");
  const Dense& out = full.output("expert_combine");
  EXPECT_EQ(std::ranges::count(slots.data, -1.0), kTokenCount - 2 * 3);
  for (std::size_t n = 0; n < kTokenCount; ++n) {
    const bool dropped = slots.data[n] == -1;
    EXPECT_EQ(dropped, n % 8 >= 3) << n;
    EXPECT_EQ(dropped, sum_of_row(out, n) == 0) << n;
  }
  config.capacity_factor = 0;
  const Model dropless = make_model(config, kBatch);
  const Ran all(dropless.graph, alike(dropless));
  EXPECT_EQ(std::ranges::count(all.output("expert_slots").data, -1.0), 0);
}

/// Where a sequence's tokens go, and what is computed for them, does not depend on the other sequence.
TEST(MixtureOfExperts, RoutesEachSequenceIndependently) {
  ModelConfig config = with_experts(4, 2);
  config.capacity_factor = 1;
  const Model model = make_model(config, kBatch);
  Leaves leaves = leaves_of(model);
  const Ran before(model.graph, leaves);
  std::fill_n(leaves["tokens"].data.begin() + kBatch.length, kBatch.length, 3.0);
  const Ran after(model.graph, leaves);
  const auto half = [](const Dense& x) {
    return std::vector<double>(x.data.begin(),
                               x.data.begin() + static_cast<std::ptrdiff_t>(x.data.size() / 2));
  };
  EXPECT_NE(before.output("expert_slots").data, after.output("expert_slots").data);
  EXPECT_EQ(half(before.output("expert_slots")), half(after.output("expert_slots")));
  EXPECT_EQ(half(before.after_blocks()), half(after.after_blocks()));
}

/// E sum_e share_e probability_e: 1 if the load is even, E p if all choose one.
TEST(MixtureOfExperts, BalanceLossMatchesSwitchTransformers) {
  ModelConfig config = with_experts(4, 2);
  const double plain = Ran(config).loss();
  config.balance_loss = 0.1;
  const Ran ran(config);
  const Dense& counts = ran.output("expert_load");
  const Dense& probability = ran.output("softmax");
  double expected = 0;
  for (std::size_t i = 0; i < probability.data.size(); ++i) {
    expected += 4 * counts.data[i % 4] / (2 * kTokenCount) * probability.data[i] / kTokenCount;
  }
  EXPECT_GT(expected, 1.0);
  EXPECT_NEAR((ran.loss() - plain) / 0.1, expected, 1e-12);
}

TEST(MixtureOfExperts, NoiseSpreadsLoad) {
  ModelConfig config = with_experts(4, 1);
  const Model plain = make_model(config, kBatch);
  EXPECT_NEAR(load_variation(Ran(plain.graph, alike(plain))), std::sqrt(3.0), 1e-12);
  config.noisy_router = true;
  const Model noisy = make_model(config, kBatch);
  Leaves leaves = alike(noisy);
  std::ranges::fill(leaves["h.0.block_sparse_moe.gate.weight"].data, 0.0);
  EXPECT_LT(load_variation(Ran(noisy.graph, leaves)), 0.6);
}

TEST(MixtureOfExperts, NoiseDependsOnStepAndIsOffForInference) {
  ModelConfig config = with_experts(4, 2);
  const double quiet = Ran(config).loss();
  config.noisy_router = true;
  EXPECT_EQ(Ran(config, 5).loss(), Ran(config, 5).loss());
  EXPECT_NE(Ran(config, 5).loss(), Ran(config, 6).loss());
  const Model used = make_model(for_inference(config), kBatch);
  EXPECT_EQ(Ran(used, 5).loss(), quiet);
}

/// A recomputed block draws the same noise, so that its tokens go to the same experts.
TEST(MixtureOfExperts, NoiseIsReproducedByRecomputation) {
  ModelConfig config = with_experts(4, 2);
  config.noisy_router = true;
  const Model model = make_model(config, kBatch);
  const Graph once = make_training_graph(model.graph, {.optimizer = Sgd{}});
  Graph twice = recompute(once, {.mode = RecomputeMode::Full});
  Leaves leaves = leaves_of(model);
  leaves["learning_rate"] = Dense(Shape{});
  EXPECT_GT(std::ranges::count_if(twice.nodes(),
                                  [](const Node& n) { return n.op->name == "random_normal"; }),
            1);
  const ValueId norm = once.output("grad_norm");
  const ValueId again = twice.output("grad_norm");
  EXPECT_EQ(Ran(once, leaves).at(norm).data, Ran(std::move(twice), leaves).at(again).data);
}

/// As in Switch Transformers: experts in every second block, plain ones otherwise.
TEST(MixtureOfExperts, SupportsExpertsInSomeBlocks) {
  for (const char* preset : {"gpt-nano", "llama-tiny"}) {
    ModelConfig config = preset_model(preset);
    config.layers = 5;
    config.experts = 4;
    config.mixture_every = 2;
    const Model model = make_model(config, kBatch);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const bool expected = layer == 1 || layer == 3;
      EXPECT_EQ(config.has_experts(layer), expected);
      const std::string number = "." + std::to_string(layer) + ".";
      const bool experts = std::ranges::any_of(model.parameters, [&](const ModelParameter& p) {
        return p.name.find(number + "block_sparse_moe.experts.") != std::string::npos;
      });
      const bool dense = std::ranges::any_of(model.parameters, [&](const ModelParameter& p) {
        return p.name.find(number + "mlp.") != std::string::npos;
      });
      EXPECT_EQ(experts, expected) << preset << ", block " << layer;
      EXPECT_EQ(dense, !expected) << preset << ", block " << layer;
    }
    config.mixture_every = 6;
    EXPECT_THROW(require_valid(config), Error);
  }
}

/// With routed experts that return 0, only the shared one remains: a plain feed-forward part.
TEST(MixtureOfExperts, SharedExpertProcessesAllTokens) {
  ModelConfig config = with_experts(4, 2);
  config.shared_experts = 2;
  ModelConfig plain = small();
  plain.hidden = 2 * config.hidden;
  const Model dense = make_model(plain, kBatch);
  const Model mixture = make_model(config, kBatch);
  const Leaves of_dense = leaves_of(dense);
  Leaves leaves = leaves_of(mixture);
  const std::string experts = "h.0.block_sparse_moe.";
  std::ranges::fill(leaves[experts + "experts.c_proj.weight"].data, 0.0);
  for (const char* part : {"c_fc.weight", "c_proj.weight"}) {
    leaves[experts + "shared_expert." + part] = of_dense.at(std::string("h.0.mlp.") + part);
  }
  EXPECT_NEAR(Ran(mixture.graph, leaves).loss(), Ran(dense.graph, of_dense).loss(), 1e-12);
}

ModelConfig with_depths(double capacity) {
  ModelConfig config = small();
  config.depth_capacity = capacity;
  config.depth_every = 1;
  return config;
}

TEST(MixtureOfDepths, PicksTopTokensInOrder) {
  const Ran ran(with_depths(0.4));  // ceil(3.2) of 8
  const Dense& scores = ran.input("top_k", 0);
  const Dense& picked = ran.input("gather_rows", 1);
  ASSERT_EQ(picked.shape, (Shape{2, 4}));
  for (std::size_t b = 0; b < 2; ++b) {
    const std::vector<double> row(picked.data.begin() + static_cast<std::ptrdiff_t>(4 * b),
                                  picked.data.begin() + static_cast<std::ptrdiff_t>(4 * b + 4));
    EXPECT_TRUE(std::ranges::is_sorted(row));
    double least = 1e9;
    double largest_left = -1e9;
    for (std::size_t t = 0; t < 8; ++t) {
      const double score = scores.data[8 * b + t];
      const bool is_picked = std::ranges::find(row, static_cast<double>(t)) != row.end();
      least = is_picked ? std::min(least, score) : least;
      largest_left = is_picked ? largest_left : std::max(largest_left, score);
    }
    EXPECT_GT(least, largest_left);
  }
}

TEST(MixtureOfDepths, PassesUnpickedTokensThrough) {
  const Ran ran(with_depths(0.25));
  const Dense& before = ran.input("gather_rows", 0);
  const Dense& after = ran.after_blocks();
  const Dense& picked = ran.input("gather_rows", 1);
  int changed = 0;
  for (std::size_t n = 0; n < kTokenCount; ++n) {
    const auto row = picked.data.begin() + static_cast<std::ptrdiff_t>(n / 8 * 2);
    const bool is_picked = std::find(row, row + 2, static_cast<double>(n % 8)) != row + 2;
    const bool same = std::equal(before.data.begin() + static_cast<std::ptrdiff_t>(12 * n),
                                 before.data.begin() + static_cast<std::ptrdiff_t>(12 * n + 12),
                                 after.data.begin() + static_cast<std::ptrdiff_t>(12 * n));
    EXPECT_EQ(same, !is_picked) << n;
    changed += same ? 0 : 1;
  }
  EXPECT_EQ(changed, 4);
}

/// A router that scores 0 gates everything by one half: if it picks all tokens, that is half of what a plain block
/// adds.
TEST(MixtureOfDepths, PickingAllTokensMatchesPlainBlockUpToGate) {
  const Model routed = make_model(with_depths(1), kBatch);
  Leaves leaves = leaves_of(routed);
  std::ranges::fill(leaves["h.0.depth_router.weight"].data, 0.0);
  const Ran some(routed.graph, leaves);
  const Ran plain(small());
  const Dense& before = some.input("gather_rows", 0);
  for (std::size_t i = 0; i < before.data.size(); ++i) {
    const double added = plain.after_blocks().data[i] - before.data[i];
    EXPECT_NEAR(some.after_blocks().data[i] - before.data[i], added / 2, 1e-12);
  }
}

double loss_with(const Model& model, Leaves leaves, const std::string& name, std::size_t element,
                 double moved) {
  leaves.at(name).data[element] += moved;
  return Ran(model.graph, leaves).loss();
}

/// Gates, noise, shared experts and picked tokens: gradients of some elements of each parameter match finite
/// differences of the loss.
TEST(Mixtures, GradientsMatchFiniteDifferences) {
  ModelConfig topped = with_experts(4, 2);
  topped.noisy_router = true;
  topped.shared_experts = 1;
  ModelConfig softmax = with_experts(4, 2);
  softmax.gate_order = GateOrder::SoftmaxFirst;
  softmax.balance_loss = 0.1;
  softmax.capacity_factor = 1;
  constexpr double kStep = 1e-5;
  for (const ModelConfig& config : {topped, softmax, with_depths(0.4)}) {
    const Model model = make_model(config, kBatch);
    const Leaves leaves = leaves_of(model);
    const std::vector<ValueId> parameters = model.graph.with_origin(Origin::Parameter);
    const Gradients found = add_gradients(model.graph, model.graph.output("loss"), parameters);
    const Ran ran(found.graph, leaves);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::string& name = model.graph.value(parameters[p]).name;
      const Dense& gradient = ran.at(found.values[p]);
      for (const std::size_t element : {std::size_t{0}, gradient.data.size() / 2 + 1}) {
        const double difference = loss_with(model, leaves, name, element, kStep) -
                                  loss_with(model, leaves, name, element, -kStep);
        EXPECT_NEAR(gradient.data[element], difference / (2 * kStep),
                    1e-8 + 1e-5 * std::abs(gradient.data[element]))
            << name << " " << element;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
