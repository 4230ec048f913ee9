#include "train/data/tasks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "train/data/batches.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

constexpr std::size_t kMany = 20000;

TEST(WaveTask, HasStatedVariance) {
  const WaveTask task({.inputs = 3, .outputs = 2, .frequency = 0.8, .noise = 0.2, .seed = 5});
  std::vector<float> x(3 * kMany);
  std::vector<float> targets(2 * kMany);
  task.fill(1, 0, x, targets);
  double sum = 0;
  double square = 0;
  for (const float target : targets) {
    sum += target / static_cast<double>(targets.size());
    square += static_cast<double>(target) * target / static_cast<double>(targets.size());
  }
  EXPECT_NEAR(sum, 0, 0.01);
  EXPECT_NEAR(square, task.uninformed(), 0.01);
  EXPECT_DOUBLE_EQ(task.floor(), 0.04);
}

/// Waves of frequency 0 are flat, which leaves the noise.
TEST(WaveTask, HasStatedNoise) {
  const WaveTask task({.inputs = 2, .outputs = 1, .frequency = 0, .noise = 0.3, .seed = 1});
  std::vector<float> x(2 * kMany);
  std::vector<float> targets(kMany);
  task.fill(1, 0, x, targets);
  double square = 0;
  for (const float target : targets) {
    square += static_cast<double>(target) * target / kMany;
  }
  EXPECT_NEAR(square, task.floor(), 0.003);
  EXPECT_DOUBLE_EQ(task.uninformed(), task.floor());
}

/// The class whose pattern matches best at any position; exact for images without noise.
std::size_t shown_in(std::span<const float> image, const std::vector<std::vector<float>>& patterns,
                     std::size_t size) {
  std::size_t best = 0;
  double most = -1e9;
  for (std::size_t place = 0; place < (size - 3) * (size - 3); ++place) {
    const std::size_t row = place / (size - 3);
    const std::size_t column = place % (size - 3);
    for (std::size_t c = 0; c < patterns.size(); ++c) {
      double fit = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        fit += static_cast<double>(image[(row + i / 4) * size + column + i % 4]) * patterns[c][i];
      }
      if (fit > most) {
        most = fit;
        best = c;
      }
    }
  }
  return best;
}

/// Images of 4 x 4 pixels without noise are the patterns themselves.
std::vector<std::vector<float>> patterns_of(PatternOptions options) {
  options.size = 4;
  options.noise = 0;
  options.wrong_share = 0;
  const PatternTask task(options);
  std::vector<std::vector<float>> patterns(static_cast<std::size_t>(options.classes));
  for (std::int64_t n = 0; n < 200; ++n) {
    std::vector<float> image(16);
    std::int32_t label = 0;
    task.fill(9, n, image, std::span(&label, 1));
    patterns.at(static_cast<std::size_t>(label)) = image;
  }
  return patterns;
}

TEST(PatternTask, HasStatedShareOfWrongLabels) {
  const PatternOptions options{.size = 7, .classes = 5, .noise = 0, .wrong_share = 0.2, .seed = 2};
  const PatternTask task(options);
  const std::vector<std::vector<float>> patterns = patterns_of(options);
  constexpr std::size_t kImages = 4000;
  std::vector<float> images(49 * kImages);
  std::vector<std::int32_t> labels(kImages);
  task.fill(3, 0, images, labels);
  std::map<std::int32_t, double> turns;  // by distance of the label from the class
  for (std::size_t n = 0; n < kImages; ++n) {
    const auto shown =
        static_cast<std::int32_t>(shown_in(std::span(images).subspan(49 * n, 49), patterns, 7));
    turns[(labels[n] - shown + 5) % 5] += 1.0 / kImages;
  }
  EXPECT_NEAR(turns[0], 0.8, 0.02);
  double entropy = 0;
  for (const auto& [turn, share] : turns) {
    EXPECT_NEAR(share, turn == 0 ? 0.8 : 0.05, 0.02);
    entropy -= share * std::log(share);
  }
  EXPECT_NEAR(entropy, task.floor(), 0.03);
  EXPECT_DOUBLE_EQ(task.uninformed(), std::log(5.0));
}

/// Any part of a stream can be generated on its own, and streams differ.
TEST(Tasks, ExamplesDependOnlyOnTheirIndex) {
  const auto draw = [](std::uint64_t seed, DataPosition at, std::size_t count) {
    const auto batches = make_batches(PatternTask({}), seed);
    std::vector<float> images(144 * count);
    std::vector<std::int32_t> labels(count);
    batches->fill(
        at, {std::as_writable_bytes(std::span(images)), std::as_writable_bytes(std::span(labels))});
    return std::pair(images, labels);
  };
  const auto batches = make_batches(PatternTask({}), 1);
  const auto all = draw(1, {}, 10);
  const auto last = draw(1, batches->advance({}, 7), 3);
  EXPECT_TRUE(std::equal(last.first.begin(), last.first.end(), all.first.end() - 3 * 144));
  EXPECT_TRUE(std::equal(last.second.begin(), last.second.end(), all.second.end() - 3));
  EXPECT_NE(draw(2, {}, 10).first, all.first);
}

TEST(Tasks, RejectInvalidSizes) {
  EXPECT_THROW(WaveTask({.inputs = 0}), Error);
  EXPECT_THROW(PatternTask({.size = 3}), Error);
  EXPECT_THROW(PatternTask({.classes = 1}), Error);
  EXPECT_THROW(PatternTask({.wrong_share = 1}), Error);
}

}  // namespace
}  // namespace trireme::train
