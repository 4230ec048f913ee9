#include "trireme/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "autodiff/layer_chain.h"
#include "expect_error.h"
#include "trireme/flops.h"
#include "trireme/training.h"

namespace trireme::testing {
namespace {

RecomputeOptions full() {
  return {.mode = RecomputeMode::Full};
}
RecomputeOptions selective() {
  return {.mode = RecomputeMode::Selective};
}

std::vector<ChainOptions> chains() {
  return {
      {.widths = {3, 5, 4, 2}, .between = {"relu"}},
      {.widths = {3, 5, 4, 2}, .between = {"layer_norm", "gelu"}, .gradient_of_input = true},
      {.widths = {6, 6, 6, 6, 6}, .between = {"silu"}, .products_per_block = 2, .residual = true},
      {.widths = {3, 4, 5}, .between = {}}};
}

TEST(Recompute, GradientsAreBitIdentical) {
  for (const ChainOptions& options : chains()) {
    const Chain chain = make_chain(options);
    const auto expected = results_of(chain.graph, chain.leaves);
    for (const RecomputeOptions& how : {full(), selective()}) {
      const Graph graph = recompute(chain.graph, how);
      require_valid(graph);
      for (const auto& [name, result] : results_of(graph, chain.leaves)) {
        EXPECT_EQ(result.data, expected.at(name).data) << name;
      }
    }
  }
}

TEST(Recompute, ReducesStoredActivations) {
  const Chain chain = make_chain(chains()[1]);
  const Bytes all = kept_bytes(chain.graph);
  const Bytes some = kept_bytes(recompute(chain.graph, selective()));
  const Bytes least = kept_bytes(recompute(chain.graph, full()));
  EXPECT_LT(some, all);
  EXPECT_LT(least, some);
  // The results of three blocks, the last of which the loss reads: [4,5], [4,4], [4,2].
  EXPECT_EQ(least.count, 4 * 4 * (5 + 4 + 2));
}

TEST(Recompute, NoneLeavesGraphUnchanged) {
  const Chain chain = make_chain(chains()[1]);
  EXPECT_EQ(recompute(chain.graph, {}), chain.graph);
  const FlopCount count = count_flops(chain.graph);
  EXPECT_EQ(count.model().products, count.hardware().products);
}

TEST(Recompute, SelectiveRecomputesNoProducts) {
  const Chain chain = make_chain(chains()[1]);
  const FlopCount count = count_flops(recompute(chain.graph, selective()));
  EXPECT_EQ(count.of(Phase::Recompute).products, 0);
  EXPECT_GT(count.of(Phase::Recompute).others, 0);
}

TEST(Recompute, HappensRightBeforeBackwardOfItsBlock) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,3]
  parameter %w: f32[3,3]
  parameter %u: f32[3,3]
  %a: f32[2,3] = einsum(%x, %w) equation="bi,ij->bj" @block(0)
  %b: f32[2,3] = relu(%a) @block(0)
  %c: f32[2,3] = einsum(%b, %u) equation="bi,ij->bj" @block(1)
  %d: f32[2,3] = relu(%c) @block(1)
  %loss: f32[] = reduce_sum(%d) axes=[0,1]
  output loss = %loss
})");
  const Graph trained = make_training_graph(graph, {.optimizer = Sgd{}});
  const std::string text = to_text(recompute(trained, full()));
  const std::size_t from = text.find("  %loss");
  EXPECT_EQ(text.substr(from, text.find("  %sum_squares") - from),
            R"(  %loss: f32[] = reduce_sum(%d) axes=[0,1]
  %grad/loss/fill: f32[] = fill() value=1.0 @backward
  %grad/loss/broadcast: f32[2,3] = broadcast(%grad/loss/fill) shape=[2,3] axes=[0,1] @backward
  %recompute/c: f32[2,3] = einsum(%b, %u) equation="bi,ij->bj" @recompute @block(1)
  %grad/d/relu_backward: f32[2,3] = relu_backward(%recompute/c, %grad/loss/broadcast) @backward @block(1)
  %grad/c/einsum: f32[2,3] = einsum(%grad/d/relu_backward, %u) equation="bj,ij->bi" @backward @block(1)
  %d_u: f32[3,3] = einsum(%b, %grad/d/relu_backward) equation="bi,bj->ij" @backward @block(1)
  %recompute/a: f32[2,3] = einsum(%x, %w) equation="bi,ij->bj" @recompute @block(0)
  %grad/b/relu_backward: f32[2,3] = relu_backward(%recompute/a, %grad/c/einsum) @backward @block(0)
  %d_w: f32[3,3] = einsum(%x, %grad/b/relu_backward) equation="bi,bj->ij" @backward @block(0)
)");
}

/// 2 B (sum of n_k n_k+1)
double forward_products(const ChainOptions& options) {
  double sum = 0;
  for (std::size_t k = 0; k + 1 < options.widths.size(); ++k) {
    sum += 2.0 * static_cast<double>(options.batch * options.widths[k] * options.widths[k + 1]);
  }
  return sum;
}

// Every product is recomputed, because relu's backward reads it. With the gradient of the input the backward is two
// forwards F, and the total is 4 F for a model's 3 F. Without it the first layer's share F1 is missing in both:
// (4 F - F1) / (3 F - F1).
TEST(Recompute, OfProductChainCostsOneExtraForward) {
  ChainOptions options{.batch = 8, .widths = {16, 32, 8, 24, 4}, .between = {"relu"}};
  const double f = forward_products(options);
  const double f1 = 2.0 * 8 * 16 * 32;
  FlopCount count = count_flops(recompute(make_chain(options).graph, full()));
  EXPECT_EQ(count.model().products, 3 * f - f1);
  EXPECT_EQ(count.hardware().products, 4 * f - f1);
  options.gradient_of_input = true;
  count = count_flops(recompute(make_chain(options).graph, full()));
  EXPECT_EQ(count.model().products, 3 * f);
  EXPECT_EQ(count.hardware().products, 4 * f);
  EXPECT_EQ(count.model().products / count.hardware().products, 0.75);
}

// The last product of a block is not recomputed if its result leaves the block: of k equal products k - 1 are, so rho =
// (k - 1) / k.
TEST(Recompute, MfuOverHfuIsThreeOverThreePlusRho) {
  for (const int per_block : {1, 2, 3, 4, 6}) {
    const ChainOptions options{.widths = std::vector<std::int64_t>(13, 8),
                               .products_per_block = per_block,
                               .gradient_of_input = true};
    const FlopCount count = count_flops(recompute(make_chain(options).graph, full()));
    const double rho = count.of(Phase::Recompute).products / count.of(Phase::Forward).products;
    EXPECT_DOUBLE_EQ(rho, (per_block - 1.0) / per_block);
    EXPECT_DOUBLE_EQ(count.model().products / count.hardware().products, 3 / (3 + rho));
  }
}

/// The least FLOPs within the budget over all 3^n choices, each executed.
class BruteForce {
 public:
  explicit BruteForce(const Graph& graph, int blocks) {
    const double before = total(graph);
    int choices = 1;
    for (int b = 0; b < blocks; ++b) {
      choices *= 3;
    }
    for (int choice = 0; choice < choices; ++choice) {
      RecomputeOptions options;
      int rest = choice;
      for (int b = 0; b < blocks; ++b, rest /= 3) {
        options.blocks[b] = static_cast<RecomputeMode>(rest % 3);
      }
      const Graph done = recompute(graph, options);
      outcomes_.emplace_back(kept_bytes(done), total(done) - before);
    }
  }

  [[nodiscard]] const std::vector<std::pair<Bytes, double>>& outcomes() const { return outcomes_; }

  /// Infinity if none fits.
  [[nodiscard]] double least(Bytes budget) const {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [kept, flops] : outcomes_) {
      best = kept <= budget ? std::min(best, flops) : best;
    }
    return best;
  }

 private:
  static double total(const Graph& graph) {
    const Flops all = count_flops(graph).hardware();
    return all.products + all.others;
  }

  std::vector<std::pair<Bytes, double>> outcomes_;
};

void expect_best(const Graph& graph, const BruteForce& all, Bytes budget) {
  const auto plan = plan_recompute(graph, budget);
  const double best = all.least(budget);
  ASSERT_EQ(plan.has_value(), std::isfinite(best)) << budget.count;
  if (plan) {
    EXPECT_EQ(plan->flops, best) << budget.count;
    EXPECT_LE(plan->kept, budget);
    EXPECT_EQ(plan->kept, kept_bytes(recompute(graph, {.blocks = plan->blocks})));
  }
}

TEST(RecomputePlan, IsOptimal) {
  std::mt19937 generator(5);
  std::uniform_int_distribution<std::int64_t> width(1, 9);
  const std::vector<std::vector<std::string>> betweens{
      {"relu"}, {"layer_norm", "gelu"}, {}, {"silu", "square"}};
  for (int round = 0; round < 8; ++round) {
    ChainOptions options{.between = betweens[static_cast<std::size_t>(round) % betweens.size()],
                         .products_per_block = 1 + round % 2};
    constexpr int kBlocks = 4;
    for (int k = 0; k <= kBlocks * options.products_per_block; ++k) {
      options.widths.push_back(width(generator));
    }
    const Graph graph = make_chain(options).graph;
    const BruteForce all(graph, kBlocks);
    for (const auto& [kept, flops] : all.outcomes()) {
      expect_best(graph, all, kept);
      expect_best(graph, all, {kept.count - 1});
    }
  }
}

// %a is kept as soon as one of the blocks is recomputed, and only once if both are: 32 bytes instead of the 64 of %b
// and %d. Plus the 4 of the loss, which the update reads.
TEST(RecomputePlan, CountsValueSharedByTwoBlocksOnce) {
  const Graph forward = parse_graph(R"(graph g {
  input %x: f32[8]
  parameter %w: f32[8]
  %a: f32[8] = add(%x, %w) @block(0)
  %b: f32[8] = scale(%a) factor=2.0 @block(0)
  %c: f32[8] = tanh(%b) @block(0)
  %d: f32[8] = scale(%a) factor=3.0 @block(1)
  %e: f32[8] = sigmoid(%d) @block(1)
  %f: f32[8] = add(%c, %e) @block(1)
  %loss: f32[] = reduce_sum(%f) axes=[0]
  output loss = %loss
})");
  const Graph graph = make_training_graph(forward, {.optimizer = Sgd{}});
  EXPECT_EQ(kept_bytes(graph).count, 64 + 4);
  ASSERT_TRUE(plan_recompute(graph, {32 + 4}));
  const BruteForce all(graph, 2);
  for (const auto& [kept, flops] : all.outcomes()) {
    expect_best(graph, all, kept);
    expect_best(graph, all, {kept.count - 1});
  }
}

TEST(RecomputeBy, FollowsChoice) {
  const Graph graph = make_chain(chains()[1]).graph;
  EXPECT_EQ(recompute_by(graph, {}), graph);
  EXPECT_EQ(recompute_by(graph, {.mode = RecomputeMode::Full}), recompute(graph, full()));
  EXPECT_EQ(recompute_by(graph, {.mode = RecomputeMode::Selective}), recompute(graph, selective()));
  const Bytes least = kept_bytes(recompute(graph, full()));
  EXPECT_LE(kept_bytes(recompute_by(graph, {.budget = least})), least);
  EXPECT_EQ(recompute_by(graph, {.budget = kept_bytes(graph)}), graph);
  expect_error(ErrorKind::Usage, "with everything recomputed they take 176 B",
               [&] { (void)recompute_by(graph, {.budget = Bytes{least.count - 1}}); });
}

TEST(RecomputePlan, HandlesLongChains) {
  const ChainOptions options{.batch = 1,
                             .widths = std::vector<std::int64_t>(65, 2),
                             .between = {"layer_norm", "gelu"},
                             .residual = true};
  const Graph graph = make_chain(options).graph;
  const Bytes all = kept_bytes(graph);
  const auto plan = plan_recompute(graph, {all.count * 6 / 10});
  ASSERT_TRUE(plan);
  EXPECT_LE(plan->kept.count, all.count * 6 / 10);
  EXPECT_FALSE(plan_recompute(graph, {0}));
}

}  // namespace
}  // namespace trireme::testing
