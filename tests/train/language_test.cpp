#include "train/data/language.h"

#include <cctype>
#include <cmath>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace trireme::train {
namespace {

TEST(Language, RowsAreDistributions) {
  const Language language;
  for (int a = 0; a < language.symbols(); ++a) {
    for (int b = 0; b < language.symbols(); ++b) {
      double sum = 0;
      for (int c = 0; c < language.symbols(); ++c) {
        EXPECT_GT(language.probability(a, b, c), 0);
        sum += language.probability(a, b, c);
      }
      ASSERT_NEAR(sum, 1, 1e-12);
    }
  }
}

TEST(Language, EntropiesAreOrdered) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Language language({.seed = seed});
    EXPECT_LT(language.unigram_entropy(), std::log(64.0) - 0.2);
    EXPECT_LT(language.bigram_entropy(), language.unigram_entropy() - 0.2);
    EXPECT_LT(language.entropy_rate(), language.bigram_entropy() - 0.2);
    EXPECT_GT(language.entropy_rate(), 0.5);
  }
}

TEST(Language, SimpleLanguagesHaveKnownEntropies) {
  // All symbols equally likely, regardless of the context.
  const Language uniform({.symbols = 16, .groups = 1, .smoothing = 1});
  EXPECT_NEAR(uniform.entropy_rate(), std::log(16.0), 1e-12);
  EXPECT_NEAR(uniform.bigram_entropy(), std::log(16.0), 1e-12);
  EXPECT_NEAR(uniform.unigram_entropy(), std::log(16.0), 1e-12);
  // One group: the second-to-last symbol does not matter.
  const Language first_order({.symbols = 16, .groups = 1});
  EXPECT_NEAR(first_order.entropy_rate(), first_order.bigram_entropy(), 1e-10);
  // One regular successor, or either of 2: each row has 0.95 and 0.05.
  const Language two({.symbols = 2, .groups = 2, .successors = 1, .smoothing = 0.1});
  EXPECT_NEAR(two.entropy_rate(), -0.95 * std::log(0.95) - 0.05 * std::log(0.05), 1e-12);
}

/// The mean of -ln p over a sample, for a model that counts contexts of `order` symbols in it.
double counted_entropy(const std::vector<std::int32_t>& tokens, int order, int symbols) {
  std::size_t contexts = 1;
  for (int i = 0; i < order; ++i) {
    contexts *= symbols;
  }
  std::vector<double> counts(contexts * symbols);
  std::vector<double> totals(contexts);
  std::size_t context = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i >= static_cast<std::size_t>(order)) {
      ++counts[context * symbols + tokens[i]];
      ++totals[context];
    }
    context = (context * symbols + tokens[i]) % contexts;
  }
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i] > 0 ? -counts[i] * std::log(counts[i] / totals[i / symbols]) : 0;
  }
  return sum / static_cast<double>(tokens.size());
}

TEST(Language, EntropiesMatchSamples) {
  const Language language({.symbols = 20, .groups = 5, .successors = 4});
  const std::vector<std::int32_t> tokens = language.sample(1'000'000, 5);
  EXPECT_NEAR(counted_entropy(tokens, 0, 20), language.unigram_entropy(), 0.01);
  EXPECT_NEAR(counted_entropy(tokens, 1, 20), language.bigram_entropy(), 0.01);
  EXPECT_NEAR(counted_entropy(tokens, 2, 20), language.entropy_rate(), 0.01);
}

TEST(Language, SelfPredictionCostsEntropyRate) {
  const Language language;
  const std::vector<std::int32_t> tokens = language.sample(300'000, 9);
  double sum = 0;
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    sum -= std::log(language.probability(tokens[i - 2], tokens[i - 1], tokens[i]));
  }
  EXPECT_NEAR(sum / static_cast<double>(tokens.size() - 2), language.entropy_rate(), 0.015);
}

TEST(Language, SamplingIsReproducible) {
  const Language language;
  const std::vector<std::int32_t> tokens = language.sample(500, 4);
  const std::vector<std::int32_t> fewer = language.sample(100, 4);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), tokens.begin()));
  EXPECT_NE(tokens, language.sample(500, 5));
  EXPECT_NE(tokens, Language({.seed = 2}).sample(500, 4));
  EXPECT_TRUE(language.sample(0, 4).empty());
  for (const char c : language.text(tokens)) {
    EXPECT_TRUE(c == '\n' || std::isprint(static_cast<unsigned char>(c)) != 0);
  }
  expect_error(ErrorKind::Usage, "symbol 64 is out of range; there are 64",
               [&] { (void)language.text(std::vector<std::int32_t>{64}); });
}

TEST(Language, RejectsOptionsOutOfRange) {
  expect_error(ErrorKind::Usage, "symbols is 65, not 2 to 64", [] { Language({.symbols = 65}); });
  expect_error(ErrorKind::Usage, "groups is 0, not 1 to 64", [] { Language({.groups = 0}); });
  expect_error(ErrorKind::Usage, "successors is 65", [] { Language({.successors = 65}); });
  expect_error(ErrorKind::Usage, "smoothing is 0", [] { Language({.smoothing = 0}); });
}

}  // namespace
}  // namespace trireme::train
