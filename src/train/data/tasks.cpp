#include "train/data/tasks.h"

#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "graph/random.h"
#include "train/data/random.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

constexpr std::int64_t kPattern = 4;  // pixels along a pattern's edge

/// The index-th standard normal number of a stream.
double normal(std::uint64_t stream, std::int64_t index) {
  return random::normal({static_cast<std::int64_t>(stream), 0, random::Use::Normal},
                        static_cast<std::uint64_t>(index));
}

/// Uniform in 0 … count - 1, up to 2^-53.
std::int64_t pick(std::uint64_t stream, std::uint64_t counter, std::int64_t count) {
  return static_cast<std::int64_t>(random_unit(stream, counter) * static_cast<double>(count));
}

}  // namespace

WaveTask::WaveTask(const WaveOptions& options) : options_(options) {
  require(options.inputs >= 1 && options.outputs >= 1,
          fmt::format("waves: {} inputs and {} outputs", options.inputs, options.outputs));
  for (std::int64_t o = 0; o < options.outputs; ++o) {
    std::vector<double> direction;
    double square = 0;
    for (std::int64_t i = 0; i < options.inputs; ++i) {
      direction.push_back(normal(options.seed, o * options.inputs + i));
      square += direction.back() * direction.back();
    }
    for (const double w : direction) {
      directions_.push_back(w * options.frequency / std::sqrt(square));
    }
  }
}

double WaveTask::floor() const {
  return options_.noise * options_.noise;
}

/// w . x is normal with standard deviation f = |w|, and the mean of sin² of such a number is (1 - e^(-2 f²)) / 2.
double WaveTask::uninformed() const {
  const double f = options_.frequency;
  return (1 - std::exp(-2 * f * f)) / 2 + floor();
}

void WaveTask::fill(std::uint64_t seed, std::int64_t first, std::span<float> x,
                    std::span<float> targets) const {
  const std::size_t inputs = options_.inputs;
  const std::size_t outputs = options_.outputs;
  const std::size_t count = x.size() / inputs;
  TRIREME_CHECK(x.size() == count * inputs && targets.size() == count * outputs, "waves");
  for (std::size_t n = 0; n < count; ++n) {
    const std::uint64_t stream = random_bits(seed, static_cast<std::uint64_t>(first) + n);
    for (std::size_t i = 0; i < inputs; ++i) {
      x[n * inputs + i] = static_cast<float>(normal(stream, static_cast<std::int64_t>(i)));
    }
    for (std::size_t o = 0; o < outputs; ++o) {
      double along = 0;
      for (std::size_t i = 0; i < inputs; ++i) {
        along += directions_[o * inputs + i] * x[n * inputs + i];
      }
      const double off = normal(stream, static_cast<std::int64_t>(inputs + o));
      targets[n * outputs + o] = static_cast<float>(std::sin(along) + options_.noise * off);
    }
  }
}

PatternTask::PatternTask(const PatternOptions& options) : options_(options) {
  require(options.size >= kPattern && options.channels >= 1 && options.classes >= 2,
          fmt::format("patterns: {} classes of images of {} x {} pixels with {} channels",
                      options.classes, options.size, options.size, options.channels));
  require(options.wrong_share >= 0 && options.wrong_share < 1,
          fmt::format("patterns: a share of {} wrong labels", options.wrong_share));
  const auto pixels = static_cast<std::uint64_t>(options.classes * kPattern * kPattern);
  for (std::uint64_t i = 0; i < pixels; ++i) {
    patterns_.push_back(random_unit(options.seed, i) < 0.5 ? -1.0F : 1.0F);
  }
}

double PatternTask::floor() const {
  const double wrong = options_.wrong_share;
  const double others = static_cast<double>(options_.classes - 1);
  const double right = -(1 - wrong) * std::log(1 - wrong);
  return wrong == 0 ? 0 : right - wrong * std::log(wrong / others);
}

double PatternTask::uninformed() const {
  return std::log(static_cast<double>(options_.classes));
}

/// Draws one image and returns its label.
std::int32_t PatternTask::draw(std::uint64_t example, std::span<float> image) const {
  enum Draw : std::uint64_t { Class, Row, Column, Wrong, Other, Pixels };
  const std::int64_t size = options_.size;
  const std::int64_t shown = pick(example, Class, options_.classes);
  const std::int64_t row = pick(example, Row, size - kPattern + 1);
  const std::int64_t column = pick(example, Column, size - kPattern + 1);
  const std::uint64_t pixels = random_bits(example, Pixels);
  for (std::size_t i = 0; i < image.size(); ++i) {
    image[i] = static_cast<float>(options_.noise * normal(pixels, static_cast<std::int64_t>(i)));
  }
  for (std::int64_t i = 0; i < options_.channels * kPattern * kPattern; ++i) {
    const std::int64_t channel = i / (kPattern * kPattern);
    const std::int64_t at = i % (kPattern * kPattern);
    const std::int64_t y = row + at / kPattern;
    const std::int64_t x = column + at % kPattern;
    image[(channel * size + y) * size + x] += patterns_[shown * kPattern * kPattern + at];
  }
  const bool wrong = random_unit(example, Wrong) < options_.wrong_share;
  const std::int64_t turn = wrong ? 1 + pick(example, Other, options_.classes - 1) : 0;
  return static_cast<std::int32_t>((shown + turn) % options_.classes);
}

void PatternTask::fill(std::uint64_t seed, std::int64_t first, std::span<float> images,
                       std::span<std::int32_t> labels) const {
  const std::size_t pixels = options_.channels * options_.size * options_.size;
  TRIREME_CHECK(images.size() == labels.size() * pixels, "patterns");
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::uint64_t example = random_bits(seed, static_cast<std::uint64_t>(first) + n);
    labels[n] = draw(example, images.subspan(n * pixels, pixels));
  }
}

}  // namespace trireme::train
