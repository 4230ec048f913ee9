#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/estimate.h"

namespace trireme {
namespace {

std::int64_t counted_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const ModelParameter& parameter : model.parameters) {
    count += parameter.type.shape.element_count();
  }
  return count;
}

/// The total capacity of all experts for a sequence, over the dispatched tokens: what the capacity factor adds to a
/// mixture.
double padding(const ModelConfig& c, double length) {
  const double sent = length * static_cast<double>(c.experts_per_token);
  const double even = sent / static_cast<double>(c.experts);
  const double places = std::min(std::ceil(even * c.capacity_factor), length);
  return places * static_cast<double>(c.experts) / sent;
}

std::vector<Architecture> small_ones() {
  std::vector<Architecture> all;
  for (const char* name : {"gpt-nano", "gpt-mini", "gpt2-small", "llama-tiny", "switch-mini"}) {
    all.push_back(architecture(name));
  }
  Architecture odd = architecture("llama-tiny");  // no size divides another
  odd.model.width = 56;
  odd.model.heads = 6;
  odd.model.key_heads = 3;
  odd.model.head_width = 10;
  odd.model.hidden = 77;
  odd.model.vocabulary = 101;
  odd.model.tied = true;
  all.push_back(odd);
  Architecture mixture = odd;
  mixture.model.experts = 5;
  mixture.model.experts_per_token = 2;
  all.push_back(mixture);
  mixture.model.shared_experts = 3;
  mixture.model.noisy_router = true;
  all.push_back(mixture);
  return all;
}

TEST(ClosedForm, ParametersMatchBuiltModel) {
  for (const Architecture& a : small_ones()) {
    EXPECT_EQ(count_parameters(a).total(), counted_parameters(make_model(a.model, {1, 8})))
        << a.model.name;
  }
  EXPECT_EQ(count_parameters(architecture("gpt2-small")).total(), 124439808);
}

/// The closed formulas, to the last FLOP, on the nodes of the graph: forward, backward, and what a mask leaves.
TEST(ClosedForm, FlopsMatchBuiltGraph) {
  for (const Architecture& a : small_ones()) {
    for (const BatchShape& batch : {BatchShape{1, 8}, BatchShape{3, 64}, BatchShape{2, 127}}) {
      const auto length = static_cast<double>(batch.length);
      const auto tokens = static_cast<double>(batch.sequences) * length;
      const TokenFlops token = forward_flops(a, batch.length);
      const double used = tokens * token.total();
      double forward = used;
      double balance = 0;
      if (a.is_mixture()) {
        const double routed =
            token.feed_forward * static_cast<double>(a.model.experts_per_token) /
            static_cast<double>(a.model.experts_per_token + a.model.shared_experts);
        forward += tokens * routed * (padding(a.model, length) - 1);
        balance = 2 * static_cast<double>(a.model.layers * a.model.experts);
      }
      const FlopCount count = count_flops(training_step(a, {.batch = batch}));
      const double scores = tokens * token.attention / 2;
      EXPECT_EQ(count.of(Phase::Forward).products, forward + balance) << a.model.name;
      EXPECT_EQ(count.of(Phase::Backward).products, 2 * forward + balance + scores) << a.model.name;
      EXPECT_DOUBLE_EQ(count.model().products, 3 * used + 2 * balance) << a.model.name;
      EXPECT_EQ(count.hardware().products, 3 * forward + 2 * balance + scores) << a.model.name;
      const double unseen = 3 * tokens * token.attention * (length - 1) / (2 * length);
      EXPECT_DOUBLE_EQ(count.model().causal_products, count.model().products - unseen);
    }
  }
}

TEST(ClosedForm, Gpt2SmallStepIsExact) {
  const Architecture small = architecture("gpt2-small");
  const double h = 768;
  const double model = 3 * (12 * (8 * h * h + 4 * 1024 * h + 16 * h * h) + 2 * h * 50257);
  EXPECT_EQ(training_flops(small, 1024).model, model);
  const FlopCount count = count_flops(training_step(small, {.batch = {8, 1024}}));
  EXPECT_EQ(count.model().products, 8 * 1024 * model);
}

/// Full recomputation, counted: four forwards of the blocks except for the last product of each, which no backward
/// needs.
TEST(ClosedForm, FullRecomputationSkipsLastProduct) {
  const Architecture a = architecture("gpt-mini");
  const BatchShape batch{2, 64};
  const double tokens = 128;
  const TokenFlops token = forward_flops(a, batch.length);
  const FlopCount count =
      count_flops(training_step(a, {.batch = batch, .recompute = RecomputeMode::Full}));
  EXPECT_EQ(count.of(Phase::Recompute).products,
            tokens * (token.layers() - token.feed_forward / 2));
  EXPECT_EQ(count.model().products, tokens * training_flops(a, batch.length).model);
}

TEST(ClosedForm, Gpt3IsWithinFivePercentOfSixN) {
  const TrainingFlops flops = training_flops(architecture("gpt3-175b"), 2048);
  EXPECT_NEAR(flops.model / flops.six_n, 1, 0.05);
  EXPECT_NEAR(flops.six_n, 6 * 174.6e9, 6 * 0.1e9);
  EXPECT_LT(flops.causal, flops.model);
  const double h = 12288;
  EXPECT_EQ(training_flops(architecture("gpt3-175b"), 2048, RecomputeMode::Full).hardware,
            4.0 * 96 * (24 * h * h + 4 * 2048 * h) + 3 * 2 * h * 50257);
}

TEST(ClosedForm, MixtureParametersAreExact) {
  const ParameterCount p = count_parameters(architecture("llama4-maverick"));
  EXPECT_NEAR(static_cast<double>(p.total()) / 1e9, 400.7, 0.05);
  EXPECT_NEAR(static_cast<double>(p.active() - p.routers) / 1e9, 17.17, 0.005);
  EXPECT_NEAR(static_cast<double>(p.total() - p.experts - p.routers) / 1e9, 14.15, 0.005);
}

/// The FLOPs of a token do not depend on the number of experts.
TEST(ClosedForm, MoreExpertsDoNotAddFlops) {
  Architecture a = architecture("mixtral-8x7b");
  const TokenFlops eight = forward_flops(a, 1024);
  a.model.experts = 64;
  EXPECT_EQ(forward_flops(a, 1024).feed_forward, eight.feed_forward);
  EXPECT_GT(forward_flops(a, 1024).routers, eight.routers);
}

/// A mixture of depths: an eighth of the tokens in every second block, and all tokens in all blocks.
TEST(ClosedForm, CountsPickedTokens) {
  Architecture a = architecture("depths-mini");
  const Architecture dense = architecture("gpt-mini");
  EXPECT_EQ(count_parameters(a).total(), counted_parameters(make_model(a.model, {1, 8})));
  EXPECT_EQ(count_parameters(a).total(), count_parameters(dense).total() + 2 * a.model.width);
  for (const double capacity : {0.125, 0.3, 1.0}) {
    a.model.depth_capacity = capacity;
    const FlopCount count = count_flops(training_step(a, {.batch = {2, 64}}));
    const double forward = 128 * forward_flops(a, 64).total();
    EXPECT_NEAR(count.of(Phase::Forward).products / forward, 1, 1e-12) << capacity;
    EXPECT_NEAR(count.model().products / (3 * forward), 1, 1e-12) << capacity;
  }
  const TokenFlops all = forward_flops(a, 64);
  EXPECT_EQ(all.projections, forward_flops(dense, 64).projections);
  a.model.depth_capacity = 0.125;
  // Two of four blocks process an eighth: 1/2 + 1/2 1/8; for their attention 1/2 + 1/2 1/64.
  EXPECT_DOUBLE_EQ(forward_flops(a, 64).feed_forward / all.feed_forward, 0.5625);
  EXPECT_DOUBLE_EQ(forward_flops(a, 64).attention / all.attention, 0.5078125);
}

TEST(ClosedForm, PublishedModelsHaveKnownParameterCounts) {
  const auto billions = [](const char* name) {
    return static_cast<double>(count_parameters(architecture(name)).total()) / 1e9;
  };
  EXPECT_NEAR(billions("llama-65b"), 65.29, 0.01);
  EXPECT_NEAR(billions("llama3-8b"), 8.03, 0.005);
  EXPECT_NEAR(billions("llama3-70b"), 70.55, 0.01);
  EXPECT_NEAR(billions("llama3-405b"), 405.85, 0.05);
  EXPECT_NEAR(billions("mixtral-8x7b"), 46.70, 0.01);
  EXPECT_NEAR(static_cast<double>(count_parameters(architecture("mixtral-8x7b")).active()) / 1e9,
              12.88, 0.01);
}

TEST(Architectures, ReportErrors) {
  EXPECT_THROW((void)architecture("gpt5"), Error);
  for (const std::string& name : architecture_names()) {
    EXPECT_NO_THROW(require_valid(architecture(name))) << name;
  }
  Architecture a = architecture("gpt-nano");
  a.model.shared_experts = 1;
  EXPECT_THROW(require_valid(a), Error);
  a = architecture("llama4-maverick");
  EXPECT_FALSE(a.is_buildable());
  a.model.mixture_every = 0;
  EXPECT_THROW(require_valid(a), Error);
}

}  // namespace
}  // namespace trireme
