// The random number generator, and the ops that use it.
#include "graph/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "graph/one_node.h"
#include "trireme/error.h"

namespace trireme::testing {
namespace {

// Known answers of Philox-4x32-10: counter and key of zeros, of ones, and of the digits of pi.
TEST(Random, PhiloxMatchesKnownAnswers) {
  EXPECT_EQ(random::philox({0, 0, 0, 0}, 0),
            (random::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(random::philox({~0U, ~0U, ~0U, ~0U}, ~std::uint64_t{0}),
            (random::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (random::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Mean and variance of f over this many elements.
template <class F>
std::array<double, 2> moments(std::uint64_t count, F f) {
  double sum = 0;
  double squares = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = f(i);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / static_cast<double>(count);
  return {mean, squares / static_cast<double>(count) - mean * mean};
}

double word_at(const random::Stream& stream, std::uint64_t index) {
  return random::uniform(random::block_words(stream, index / 4)[index % 4]);
}

constexpr std::uint64_t kMany = 1U << 18U;
/// Five standard deviations of the mean of kMany numbers of variance 1.
const double kFive = 5 / std::sqrt(static_cast<double>(kMany));

TEST(Random, UniformsHaveExpectedMeanAndVariance) {
  for (const random::Stream stream :
       {random::Stream{}, {.seed = 1}, {.seed = -7, .step = 123456}}) {
    const auto [mean, variance] = moments(kMany, [&](auto i) { return word_at(stream, i); });
    EXPECT_NEAR(mean, 0.5, kFive * std::sqrt(1.0 / 12));
    EXPECT_NEAR(variance, 1.0 / 12, kFive * std::sqrt(1.0 / 180));
  }
}

/// Of two uniforms, scaled to variance 1.
template <class F>
double correlation(F a, F b) {
  return moments(kMany, [&](auto i) { return 12 * (a(i) - 0.5) * (b(i) - 0.5); })[0];
}

TEST(Random, NeighborsStepsSeedsAndUsesAreIndependent) {
  using Source = std::function<double(std::uint64_t)>;
  const auto from = [](random::Stream stream, std::uint64_t distance) -> Source {
    return [=](std::uint64_t i) { return word_at(stream, i + distance); };
  };
  const Source base = from({.seed = 3, .step = 5}, 0);
  for (const std::uint64_t distance : {1, 2, 3, 4, 64, 4096}) {
    EXPECT_LT(std::abs(correlation(base, from({.seed = 3, .step = 5}, distance))), kFive);
  }
  EXPECT_LT(std::abs(correlation(base, from({.seed = 4, .step = 5}, 0))), kFive);
  EXPECT_LT(std::abs(correlation(base, from({.seed = 3, .step = 6}, 0))), kFive);
  EXPECT_LT(std::abs(correlation(base, from({.seed = 5, .step = 3}, 0))), kFive);
  EXPECT_LT(
      std::abs(correlation(base, from({.seed = 3, .step = 5, .use = random::Use::Normal}, 0))),
      kFive);
}

// Flipping any bit of the counter or the key flips half of the 128 bits of the result.
TEST(Random, EveryInputBitFlipsHalfOfOutputBits) {
  for (unsigned bit = 0; bit < 192; ++bit) {
    double changed = 0;
    constexpr std::uint32_t kTrials = 256;
    for (std::uint32_t i = 0; i < kTrials; ++i) {
      random::Words counter{i, 17 * i, 3, 4};
      std::uint64_t key = 99 + i;
      const random::Words before = random::philox(counter, key);
      if (bit < 128) {
        counter[bit / 32] ^= 1U << bit % 32;
      } else {
        key ^= std::uint64_t{1} << (bit - 128);
      }
      const random::Words after = random::philox(counter, key);
      for (std::size_t k = 0; k < 4; ++k) {
        changed += std::popcount(before[k] ^ after[k]);
      }
    }
    EXPECT_NEAR(changed / kTrials / 128, 0.5, 5 * 0.5 / std::sqrt(128.0 * kTrials)) << bit;
  }
}

TEST(Random, NormalsHaveExpectedMoments) {
  const random::Stream stream{.seed = 11, .step = 2, .use = random::Use::Normal};
  const auto power = [&](int n) {
    return moments(kMany, [&](auto i) { return std::pow(random::normal(stream, i), n); })[0];
  };
  EXPECT_NEAR(power(1), 0, kFive);
  EXPECT_NEAR(power(2), 1, kFive * std::sqrt(2.0));
  EXPECT_NEAR(power(3), 0, kFive * std::sqrt(15.0));
  EXPECT_NEAR(power(4), 3, kFive * std::sqrt(96.0));
}

// The two numbers of a pair share their radius, so their squares would show an error.
TEST(Random, NormalsOfPairAreIndependent) {
  const random::Stream stream{.seed = 11, .step = 2, .use = random::Use::Normal};
  const auto product = [&](int n) {
    return moments(kMany, [&](auto i) {
      return (std::pow(random::normal(stream, 2 * i), n) - (n == 2 ? 1 : 0)) *
             (std::pow(random::normal(stream, 2 * i + 1), n) - (n == 2 ? 1 : 0));
    })[0];
  };
  EXPECT_NEAR(product(1), 0, kFive);
  EXPECT_NEAR(product(2), 0, 2 * kFive);
}

TEST(Random, ThresholdIsSmallestKeptWord) {
  EXPECT_EQ(random::drop_below(0), 0U);
  EXPECT_EQ(random::drop_below(0.5), 1U << 31U);
  EXPECT_EQ(random::drop_below(0.1), 429496730U);
  EXPECT_EQ(random::drop_below(1), std::uint64_t{1} << 32U);
}

Dense ones(const Shape& shape) {
  return dense(shape, std::vector<double>(shape.element_count(), 1));
}

Given step(std::int64_t number) {
  return {dense({}, {static_cast<double>(number)}), DType::I64};
}

TEST(Dropout, DropsAtRateAndPreservesMean) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    const Dense y = run_op("dropout", {{ones({512, 512})}, step(3)}, {{"rate", rate}}).front();
    const auto [mean, variance] = moments(kMany, [&](auto i) { return y.data[i]; });
    const double spread = rate / (1 - rate);
    EXPECT_NEAR(mean, 1, kFive * std::sqrt(spread) + 1e-12) << rate;
    EXPECT_NEAR(variance, spread, 0.05 * spread + 1e-9) << rate;
    const auto dropped = static_cast<double>(std::ranges::count(y.data, 0.0));
    EXPECT_NEAR(dropped / kMany, rate, kFive * std::sqrt(rate * (1 - rate))) << rate;
  }
}

TEST(Dropout, MaskIsReproducibleAndSharedWithBackward) {
  const Dense x = ones({33, 7});
  const Attributes half{{"rate", 0.5}, {"seed", std::int64_t{5}}};
  const Dense y = run_op("dropout", {{x}, step(3)}, half).front();
  EXPECT_EQ(run_op("dropout", {{x}, step(3)}, half).front().data, y.data);
  EXPECT_EQ(run_op("dropout_backward", {{x}, step(3)}, half).front().data, y.data);
  EXPECT_NE(run_op("dropout", {{x}, step(4)}, half).front().data, y.data);
  EXPECT_NE(
      run_op("dropout", {{x}, step(3)}, {{"rate", 0.5}, {"seed", std::int64_t{6}}}).front().data,
      y.data);
}

/// The position of a shard in the tensor.
struct Part {
  Numbers offset;
  Numbers dims;
};

/// All shards that splitting each dimension at each position gives.
std::vector<Part> parts_of(const Numbers& whole) {
  std::vector<Part> parts{{Numbers(whole.size(), 0), whole}};
  for (std::size_t d = 0; d < whole.size(); ++d) {
    for (std::int64_t cut = 0; cut <= whole[d]; ++cut) {
      Part first{Numbers(whole.size(), 0), whole};
      Part second = first;
      first.dims[d] = cut;
      second.offset[d] = cut;
      second.dims[d] -= cut;
      parts.push_back(first);
      parts.push_back(second);
    }
  }
  parts.push_back({{1, 2, 1}, {2, 1, 3}});
  return parts;
}

/// The elements of a shard, taken from the whole tensor.
std::vector<double> cut_from(const Dense& whole, const Part& part) {
  const std::vector<std::int64_t> strides = whole.shape.strides();
  std::vector<double> found;
  for (std::int64_t i = 0; i < part.dims[0]; ++i) {
    for (std::int64_t j = 0; j < part.dims[1]; ++j) {
      for (std::int64_t k = 0; k < part.dims[2]; ++k) {
        const std::int64_t at = (part.offset[0] + i) * strides[0] +
                                (part.offset[1] + j) * strides[1] + part.offset[2] + k;
        found.push_back(whole.data[at]);
      }
    }
  }
  return found;
}

// Dropout of a sharded tensor, by sequence or by heads, drops the same elements as on one device.
TEST(Dropout, OffsetPartsMatchWhole) {
  const Numbers whole{3, 4, 5};
  const Dense x = scattered(Shape(whole));
  const Attributes half{{"rate", 0.5}, {"seed", std::int64_t{9}}};
  const Dense y = run_op("dropout", {{x}, step(8)}, half).front();
  for (const Part& part : parts_of(whole)) {
    Attributes attributes = half;
    attributes["offset"] = part.offset;
    attributes["whole"] = whole;
    const Dense piece = dense(Shape(part.dims), cut_from(x, part));
    for (const char* op : {"dropout", "dropout_backward"}) {
      EXPECT_EQ(run_op(op, {{piece}, step(8)}, attributes).front().data, cut_from(y, part));
    }
  }
}

TEST(Dropout, RejectsOutOfRangeParts) {
  const Given x{ones({2, 3})};
  const auto refuses = [&](const Numbers& offset, const Numbers& whole) {
    EXPECT_THROW((void)run_op("dropout", {x, step(0)}, {{"offset", offset}, {"whole", whole}}),
                 Error);
  };
  refuses({1, 0}, {2, 3});
  refuses({0, -1}, {2, 3});
  refuses({0}, {2});
  refuses({}, {2, 3});
  refuses({0, 0}, {2, 2});
  EXPECT_THROW((void)run_op("dropout", {x, step(0)}, {{"rate", 1.0}}), Error);
}

TEST(RandomNormal, OffsetPartsMatchWhole) {
  const Numbers whole{3, 4, 5};
  const Dense y =
      run_op("random_normal", {step(8)}, {{"shape", whole}, {"dtype", std::string("f64")}}).front();
  for (const Part& part : parts_of(whole)) {
    const Attributes attributes{{"shape", part.dims},
                                {"dtype", std::string("f64")},
                                {"offset", part.offset},
                                {"whole", whole}};
    EXPECT_EQ(run_op("random_normal", {step(8)}, attributes).front().data, cut_from(y, part));
  }
}

}  // namespace
}  // namespace trireme::testing
