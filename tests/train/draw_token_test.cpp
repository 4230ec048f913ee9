#include "trireme/draw_token.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::vector<float> kLogits{0.0F, 2.0F, 1.0F, -1.0F};

/// How often each token is drawn.
std::vector<double> shares(const SamplingOptions& options) {
  constexpr int kDraws = 20000;
  std::vector<double> counts(kLogits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    counts.at(static_cast<std::size_t>(draw_token(kLogits, options, i))) += 1;
  }
  for (double& count : counts) {
    count /= kDraws;
  }
  return counts;
}

TEST(DrawToken, FollowsDistribution) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double sum = 0;
    for (const float logit : kLogits) {
      sum += std::exp(logit / temperature);
    }
    const std::vector<double> found = shares({.temperature = temperature});
    for (std::size_t i = 0; i < kLogits.size(); ++i) {
      EXPECT_NEAR(found[i], std::exp(kLogits[i] / temperature) / sum, 0.015) << temperature;
    }
  }
}

TEST(DrawToken, RestrictsTokens) {
  EXPECT_EQ(shares({.temperature = 0})[1], 1);
  EXPECT_EQ(shares({.top_k = 1})[1], 1);
  const std::vector<double> two = shares({.temperature = 1, .top_k = 2});
  EXPECT_EQ(two[0] + two[3], 0);
  EXPECT_NEAR(two[2], 1 / (1 + std::exp(1.0)), 0.015);
  // The probabilities are 0.087, 0.644, 0.237 and 0.032: two of them make up 0.7.
  const std::vector<double> nucleus = shares({.temperature = 1, .top_p = 0.7});
  EXPECT_EQ(nucleus[0] + nucleus[3], 0);
  EXPECT_GT(nucleus[2], 0.2);
  EXPECT_EQ(shares({.temperature = 1, .top_p = 0.6})[1], 1);
}

TEST(DrawToken, DependsOnlyOnSeedAndIndex) {
  const auto tokens = [](std::uint64_t seed) {
    std::vector<std::int32_t> drawn;
    for (int i = 0; i < 50; ++i) {
      drawn.push_back(draw_token(kLogits, {.seed = seed}, i));
    }
    return drawn;
  };
  EXPECT_EQ(tokens(1), tokens(1));
  EXPECT_NE(tokens(1), tokens(2));
}

TEST(DrawToken, ReportsErrors) {
  EXPECT_EQ(problems(SamplingOptions{}), std::vector<std::string>{});
  EXPECT_EQ(problems(SamplingOptions{.temperature = -1, .top_k = -1, .top_p = 0}).size(), 3U);
}

}  // namespace
}  // namespace trireme
