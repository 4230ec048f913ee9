#include "trireme/kernel_costs.h"

#include <cmath>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "predict/measured_host.h"
#include "trireme/graph.h"

namespace trireme::predict {
namespace {

KernelWork work_of(const char* equation, const Shape& a, const Shape& b) {
  const Attributes attributes{{"equation", std::string(equation)}};
  return kernel_work({.op = &op_named("einsum"),
                      .inputs = {{DType::F32, a}, {DType::F32, b}},
                      .attributes = &attributes});
}

TEST(KernelWork, DistinguishesMatrixProductLayouts) {
  // A linear layer, the gradient of its input, and that of its weight.
  EXPECT_EQ(work_of("btk,kn->btn", {2, 3, 4}, {4, 5}).kernel, "einsum nn");
  EXPECT_EQ(work_of("btn,kn->btk", {2, 3, 5}, {4, 5}).kernel, "einsum nt");
  EXPECT_EQ(work_of("btk,btn->kn", {2, 3, 4}, {2, 3, 5}).kernel, "einsum tn");
  EXPECT_EQ(work_of("egc,ecf->egf", {2, 3, 4}, {2, 4, 5}).kernel, "einsum batched nn");
}

TEST(KernelWork, CountsFlopsAndBytes) {
  const KernelWork work = work_of("btk,kn->btn", {2, 3, 4}, {4, 5});
  EXPECT_EQ(work.dtype, "f32");
  EXPECT_EQ(work.factors, (std::array<double, 5>{1, 2 * 6 * 4 * 5, 96, 80, 120}));
}

/// The result's last dimension is of the first operand: the kernel multiplies in the other order.
TEST(KernelWork, TransposedResultSwapsOperands) {
  const KernelWork work = work_of("km,kn->nm", {4, 6}, {4, 5});
  EXPECT_EQ(work.kernel, "einsum tn");
  EXPECT_EQ(work.factors, (std::array<double, 5>{1, 2 * 6 * 4 * 5, 80, 96, 120}));
}

std::vector<KernelSample> samples_of(const std::array<double, 5>& terms,
                                     const std::string& kernel) {
  std::vector<KernelSample> samples;
  for (const double m : {16, 64, 256}) {
    for (const double n : {8, 32, 128}) {
      for (const double k : {4, 64, 512}) {
        KernelSample sample{{kernel, "f32", {1, 2 * m * n * k, 4 * m * k, 4 * k * n, 4 * m * n}},
                            {}};
        for (std::size_t i = 0; i < terms.size(); ++i) {
          sample.time.count += terms[i] * sample.work.factors[i];
        }
        samples.push_back(sample);
      }
    }
  }
  return samples;
}

TEST(KernelFit, RecoversCosts) {
  const std::array<double, 5> terms{2e-6, 2e-11, 1e-10, 3e-10, 5e-10};
  const std::vector<KernelCost> costs = fit_kernel_costs(samples_of(terms, "einsum nn"));
  ASSERT_EQ(costs.size(), 1U);
  EXPECT_EQ(costs[0].kernel, "einsum nn");
  EXPECT_EQ(costs[0].samples, 27);
  EXPECT_LT(costs[0].error, 1e-6);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    EXPECT_NEAR(costs[0].terms()[i], terms[i], 1e-6 * terms[i]) << i;
  }
}

TEST(KernelFit, CostsAreNonNegative) {
  std::vector<KernelSample> samples = samples_of({2e-6, 2e-11, 0, 0, 0}, "softmax");
  for (KernelSample& sample :
       samples) {  // larger results are faster than the others' costs explain
    sample.time.count *= 1 - 0.1 * std::log10(sample.work.factors[4]) / 5;
  }
  for (const KernelCost& cost : fit_kernel_costs(samples)) {
    for (const double term : cost.terms()) {
      EXPECT_GE(term, 0) << cost.kernel;
    }
    EXPECT_LT(cost.error, 0.1) << cost.kernel;
  }
}

TEST(KernelFit, OtherKernelsShareRow) {
  std::vector<KernelSample> samples = samples_of({1e-6, 0, 1e-10, 1e-10, 1e-10}, "gelu");
  samples.push_back({{"relu", "f32", {1, 0, 0, 0, 0}}, {0}});  // too short for the clock
  const std::vector<KernelCost> costs = fit_kernel_costs(samples);
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_EQ(costs[0].kernel, "*");
  EXPECT_EQ(costs[1].kernel, "gelu");
  EXPECT_NEAR(costs[0].call.count, costs[1].call.count, 1e-12);
}

TEST(KernelTimes, DependOnNumberOfComputingRanks) {
  const KernelWork work{.kernel = "gelu", .dtype = "f32", .factors = {1, 0, 0, 0, 0}};
  const ComputeCosts costs = compute_costs(4);
  EXPECT_NEAR(KernelTimes(costs, 4, {.ranks = 1, .threads = 4}).time(work).count, 1e-3, 1e-12);
  EXPECT_NEAR(KernelTimes(costs, 4, {.ranks = 1, .threads = 1}).time(work).count, 1e-3, 1e-12);
  EXPECT_NEAR(KernelTimes(costs, 4, {.ranks = 4, .threads = 1}).time(work).count, 2e-3, 1e-12);
  EXPECT_NEAR(KernelTimes(costs, 4, {.ranks = 8, .threads = 1}).time(work).count, 2e-3, 1e-12);
  const double two = KernelTimes(costs, 4, {.ranks = 2, .threads = 1}).time(work).count;
  EXPECT_GT(two, 1e-3);
  EXPECT_LT(two, 2e-3);
  // Two threads: halfway between one and four, on the logarithmic scale of both.
  EXPECT_NEAR(KernelTimes(costs, 4, {.ranks = 2, .threads = 2}).time(work).count,
              std::sqrt(2) * 1e-3, 1e-12);
}

TEST(KernelTimes, ReportSpeedupOfLoneRank) {
  const ComputeCosts costs = compute_costs(4);
  EXPECT_DOUBLE_EQ(KernelTimes(costs, 4, {.ranks = 4, .threads = 1}).speedup_alone(), 2);
  EXPECT_DOUBLE_EQ(KernelTimes(costs, 4, {.ranks = 1, .threads = 4}).speedup_alone(), 1);
}

TEST(KernelTimes, RequireCosts) {
  expect_error(ErrorKind::Usage, "run 'trireme probe'",
               [] { (void)KernelTimes({}, 2, {.ranks = 1, .threads = 2}); });
}

}  // namespace
}  // namespace trireme::predict
