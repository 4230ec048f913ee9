// The learning rate as a function of the step, as a value. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::train {

/// How the rate goes after the warmup.
enum class Decay {
  Constant,  ///< it stays
  Linear,    ///< to `least` at `steps`, along a line
  Cosine,    ///< to `least` at `steps`, along half a cosine
  Stable,  ///< it stays, and goes to `least` along a line in the last `decay` steps before `steps`
};

/// In the first `warmup` steps the rate rises along a line and reaches `peak` in the last of them: with a
/// warmup of 4 the steps 0, 1, 2, 3 have 1/4, 2/4, 3/4, 4/4 of it. From `steps` on it is `least`.
struct LearningRate {
  Decay shape = Decay::Constant;
  double peak = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;  ///< of the whole run; not for Constant
  std::int64_t decay = 0;  ///< for Stable only
  double least = 0;        ///< not for Constant

  /// The rate of a step, from 0 on.
  [[nodiscard]] double at(std::int64_t step) const;

  friend bool operator==(const LearningRate&, const LearningRate&) = default;
};

/// "cosine:0.001,warmup=100,steps=2000,least=0.0001", "wsd:3e-4,steps=1000,decay=200", "constant:0.01";
/// what is 0 is left out. parse_learning_rate reads it back.
[[nodiscard]] std::string to_text(const LearningRate& rate);

/// Reads that form: one of constant, linear, cosine and wsd, the peak, and settings by name, in any
/// order. Throws Error(Usage) that says what is wrong: no such shape or setting, not a number, a warmup
/// longer than the run, a least rate above the peak.
[[nodiscard]] LearningRate parse_learning_rate(std::string_view text);

}  // namespace trireme::train
