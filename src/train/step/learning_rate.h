// Learning rate schedules as values. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::train {

/// Shape of the schedule after the warmup.
enum class Decay {
  Constant,  ///< stays at `peak`
  Linear,    ///< linear to `least` at `steps`
  Cosine,    ///< half a cosine to `least` at `steps`
  Stable,    ///< stays at `peak`, then linear to `least` in the last `decay` steps before `steps`
};
/// As parse_learning_rate takes it: "wsd" for Stable.
[[nodiscard]] std::string_view to_text(Decay decay);

/// During the first `warmup` steps the rate rises linearly to `peak`: with a warmup of 4, steps 0, 1, 2, 3 have 1/4,
/// 2/4, 3/4, 4/4 of it. From `steps` on it is `least`.
struct LearningRate {
  Decay shape = Decay::Constant;
  double peak = 1e-3;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;  ///< of the whole run; unused by Constant
  std::int64_t decay = 0;  ///< used by Stable only
  double least = 0;        ///< unused by Constant

  /// The rate of a step; steps count from 0.
  [[nodiscard]] double at(std::int64_t step) const;

  friend bool operator==(const LearningRate&, const LearningRate&) = default;
};

/// "cosine:0.001,warmup=100,steps=2000,least=0.0001", "wsd:3e-4,steps=1000,decay=200", "constant:0.01"; fields that are
/// 0 are omitted. parse_learning_rate reads it back.
[[nodiscard]] std::string to_text(const LearningRate& rate);

/// Parses that format: constant, linear, cosine or wsd, the peak, and named settings in any order. `steps` may be
/// omitted if `otherwise` has them. A single number, "3e-4", sets the peak of `otherwise` and scales its least rate in
/// proportion. Throws Error(Usage) on an unknown shape or setting, an invalid number, a warmup longer than the run, or
/// a least rate above the peak.
[[nodiscard]] LearningRate parse_learning_rate(std::string_view text,
                                               const LearningRate& otherwise = {});

}  // namespace trireme::train
