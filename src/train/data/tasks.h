// Made-up tasks whose least loss is known: what models train on that are no language models. The example with a
// number is a function of the task's seed and that number, so that any rank has any of them without the others.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::train {

struct WaveOptions {
  std::int64_t inputs = 8;
  std::int64_t outputs = 4;
  double frequency = 1.0;  ///< the length of each w
  double noise = 0.1;      ///< the deviation of what is added to each target
  std::uint64_t seed = 1;  ///< of the directions
};

/// Numbers to numbers: x is standard normal, and the targets are waves along fixed directions w, with noise.
///
///   target[o] = sin(w[o] . x) + noise normal,   |w[o]| = frequency
///
/// The mean squared error of any model is at least floor() on average; uninformed() is what always answering
/// the mean, 0, gives.
class WaveTask {
 public:
  /// Throws Error(Usage) on sizes below 1.
  explicit WaveTask(const WaveOptions& options);

  [[nodiscard]] double floor() const;
  [[nodiscard]] double uninformed() const;
  /// The examples from number `first` of the stream `seed` on: x [n,inputs], targets [n,outputs].
  void fill(std::uint64_t seed, std::int64_t first, std::span<float> x,
            std::span<float> targets) const;

 private:
  WaveOptions options_;
  std::vector<double> directions_;  ///< [outputs, inputs]
};

struct PatternOptions {
  std::int64_t size = 12;     ///< of an image, along its edge; at least 4
  std::int64_t channels = 1;  ///< all alike
  std::int64_t classes = 8;
  double noise = 0.3;         ///< the deviation of what is added to each pixel
  double wrong_share = 0.05;  ///< of labels: any class but the right one
  std::uint64_t seed = 1;     ///< of the patterns
};

/// Images to classes: somewhere in the noise is the class's pattern of 4 x 4 pixels, each 1 or -1. The label is
/// that class, or, in a known share of the images, another.
///
/// Labels depend on images only through the pattern, so the mean cross-entropy of any model is at least the
/// labels' entropy given the pattern, floor(); uninformed() is what guessing gives, ln(classes).
class PatternTask {
 public:
  /// Throws Error(Usage) on sizes that cannot be.
  explicit PatternTask(const PatternOptions& options);

  [[nodiscard]] double floor() const;
  [[nodiscard]] double uninformed() const;
  /// The examples from number `first` of the stream `seed` on: images [n,channels,size,size], labels [n].
  void fill(std::uint64_t seed, std::int64_t first, std::span<float> images,
            std::span<std::int32_t> labels) const;

 private:
  [[nodiscard]] std::int32_t draw(std::uint64_t example, std::span<float> image) const;

  PatternOptions options_;
  std::vector<float> patterns_;  ///< [classes, 4, 4]
};

}  // namespace trireme::train
