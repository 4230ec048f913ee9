// Synthetic tasks with a known minimum loss, for models that are not language models. An example is a function of the
// task's seed and the example's number, so any rank can generate any of them. Callable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::train {

struct WaveOptions {
  std::int64_t inputs = 8;
  std::int64_t outputs = 4;
  double frequency = 1.0;  ///< the length of each w
  double noise = 0.1;      ///< standard deviation of the noise added to each target
  std::uint64_t seed = 1;  ///< of the directions
};

/// Regression: x is standard normal, and the targets are waves along fixed directions w, plus noise.
///
///   target[o] = sin(w[o] . x) + noise normal,   |w[o]| = frequency
///
/// The mean squared error of any model is at least floor() on average; uninformed() is the error of always answering
/// the mean, 0.
class WaveTask {
 public:
  /// Throws Error(Usage) on sizes below 1.
  explicit WaveTask(const WaveOptions& options);

  [[nodiscard]] double floor() const;
  [[nodiscard]] double uninformed() const;
  /// Writes the examples from number `first` of the stream `seed` on: x [n,inputs], targets [n,outputs].
  void fill(std::uint64_t seed, std::int64_t first, std::span<float> x,
            std::span<float> targets) const;

 private:
  WaveOptions options_;
  std::vector<double> directions_;  ///< [outputs, inputs]
};

struct PatternOptions {
  std::int64_t size = 12;     ///< edge length of an image; at least 4
  std::int64_t channels = 1;  ///< all identical
  std::int64_t classes = 8;
  double noise = 0.3;         ///< standard deviation of the noise added to each pixel
  double wrong_share = 0.05;  ///< fraction of labels replaced by another class
  std::uint64_t seed = 1;     ///< of the patterns
};

/// Classification: each image is noise plus, somewhere, the 4 x 4 pattern of its class, each pixel 1 or -1. The label
/// is that class or, for a known fraction of the images, another one.
///
/// Labels depend on images only through the pattern, so the mean cross-entropy of any model is at least the labels'
/// entropy given the pattern, floor(); uninformed() is the loss of guessing, ln(classes).
class PatternTask {
 public:
  /// Throws Error(Usage) on invalid sizes.
  explicit PatternTask(const PatternOptions& options);

  [[nodiscard]] double floor() const;
  [[nodiscard]] double uninformed() const;
  /// Writes the examples from number `first` of the stream `seed` on: images [n,channels,size,size], labels [n].
  void fill(std::uint64_t seed, std::int64_t first, std::span<float> images,
            std::span<std::int32_t> labels) const;

 private:
  [[nodiscard]] std::int32_t draw(std::uint64_t example, std::span<float> image) const;

  PatternOptions options_;
  std::vector<float> patterns_;  ///< [classes, 4, 4]
};

}  // namespace trireme::train
