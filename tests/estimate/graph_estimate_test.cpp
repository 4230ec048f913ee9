#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/estimate.h"

namespace trireme {
namespace {

const Roofline kH100{{989.4e12}, {3.35e12}};

Bytes at_peak(const GraphEstimate& estimate, Category category) {
  return estimate.memory.at_peak.at(static_cast<std::size_t>(category));
}

GraphEstimate small_step(RecomputeMode mode = RecomputeMode::None, bool fused = false) {
  return estimate_graph(training_step(architecture("gpt2-small"),
                                      {.batch = {8, 1024}, .recompute = mode, .fused = fused}));
}

const OpKind* find_kind(const GraphEstimate& estimate, const std::string& name) {
  const auto found = std::ranges::find(estimate.kinds, name, &OpKind::name);
  return found == estimate.kinds.end() ? nullptr : &*found;
}

TEST(GraphEstimate, LabelsProductsWithTheirSizes) {
  const GraphEstimate estimate = small_step();
  const OpKind* up = find_kind(estimate, "matmul 8192x768x3072");
  ASSERT_NE(up, nullptr);
  // The up projection, and the input gradient of the down projection, in each of twelve layers.
  EXPECT_EQ(up->nodes, 24);
  EXPECT_EQ(up->flops, 24 * 2.0 * 8192 * 768 * 3072);
  EXPECT_DOUBLE_EQ(up->intensity(), matmul_intensity(8192, 3072, 768, 2));
  EXPECT_NE(find_kind(estimate, "attention"), nullptr);
  EXPECT_EQ(find_kind(estimate, "reshape"), nullptr);
}

TEST(GraphEstimate, SumsAllExecutedOps) {
  const GraphEstimate estimate = small_step(RecomputeMode::Full);
  double sum = 0;
  for (const OpKind& kind : estimate.kinds) {
    sum += kind.flops;
  }
  const Flops hardware = estimate.flops.hardware();
  EXPECT_NEAR(sum, hardware.products + hardware.others, 1e-9 * sum);
}

TEST(GraphEstimate, RecomputationTradesFlopsForMemory) {
  const GraphEstimate none = small_step();
  const GraphEstimate full = small_step(RecomputeMode::Full);
  EXPECT_LT(full.kept, none.kept);
  EXPECT_LT(full.memory.peak, none.memory.peak);
  EXPECT_GT(full.flops.hardware().products, none.flops.hardware().products);
  EXPECT_EQ(full.flops.model().products, none.flops.model().products);
  EXPECT_EQ(at_peak(full, Category::Parameter).count, 2 * 124439808);
}

TEST(AtRoofline, ProductsAloneApproachPeakAndOtherOpsLowerIt) {
  const auto best = [](const std::string& text) {
    return at_roofline(estimate_graph(parse_graph(text)), kH100).mfu;
  };
  const std::string head =
      "graph g {\n input %x: bf16[4096,4096]\n parameter %w: bf16[4096,4096]\n"
      " %y: bf16[4096,4096] = einsum(%x, %w) equation=\"bi,ij->bj\"\n";
  const double product = best(head + " output y = %y\n }");
  const double relu = best(head + " %z: bf16[4096,4096] = relu(%y)\n output y = %z\n }");
  EXPECT_NEAR(product, 1, 1e-9);
  EXPECT_LT(relu, 0.95);
  const double fused = at_roofline(small_step(RecomputeMode::None, true), kH100).mfu;
  EXPECT_GT(fused, at_roofline(small_step(), kH100).mfu);
  EXPECT_LT(fused, 1);
}

TEST(AtRoofline, HfuExceedsMfu) {
  const RooflineEstimate none = at_roofline(small_step(), kH100);
  const RooflineEstimate full = at_roofline(small_step(RecomputeMode::Full), kH100);
  EXPECT_GE(none.hfu, none.mfu);
  EXPECT_LT(full.mfu, none.mfu);
  EXPECT_GT(full.hfu / full.mfu, none.hfu / none.mfu);
}

/// The closed-form count matches the graph.
TEST(TrainingStep, SupportsExpertsInSomeBlocks) {
  Architecture a = architecture("gpt-nano");
  a.model.layers = 4;
  a.model.experts = 4;
  a.model.experts_per_token = 1;
  a.model.mixture_every = 2;
  const GraphEstimate mixed =
      estimate_graph(training_step(a, {.batch = {2, 16}, .dtype = DType::F32}));
  EXPECT_EQ(at_peak(mixed, Category::Parameter).count, 4 * count_parameters(a).total());
  const std::int64_t some = count_parameters(a).total();
  a.model.mixture_every = 1;
  EXPECT_GT(count_parameters(a).total(), some);
}

TEST(TrainingStep, RejectsInvalidModels) {
  EXPECT_THROW((void)training_step(architecture("gpt-nano"), {.batch = {1, 4096}}), Error);
  EXPECT_THROW((void)training_step(architecture("llama4-maverick"), {.batch = {1, 16}}), Error);
}

}  // namespace
}  // namespace trireme
