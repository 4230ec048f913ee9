// How computation times vary between workers and from one step to the next: permanently slow workers, jitter, transient
// stragglers. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/valid.h"

namespace trireme::simulate {

enum class Jitter : std::uint8_t {
  None,         ///< always the nominal time
  Uniform,      ///< uniform in nominal * [1 - spread, 1 + spread]
  Exponential,  ///< exponential with the nominal time as its mean
};
/// "none", "uniform", "exponential"; parse_jitter throws Error(Usage) listing them.
[[nodiscard]] std::string_view to_text(Jitter jitter);
[[nodiscard]] Jitter parse_jitter(std::string_view text);

/// Draws are a function of the seed, the worker and the number of the draw, so they do not depend on the order in which
/// a simulation makes them: different strategies see the same times.
struct TimeVariation {
  Jitter jitter = Jitter::None;
  double spread = 0.5;   ///< of uniform jitter, 0 to 1
  int slow_workers = 0;  ///< the last ones
  double slow_factor = 2;
  double transient_chance = 0;  ///< that a time is `transient_factor` times as long
  double transient_factor = 10;
  std::uint64_t seed = 1;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const TimeVariation& variation);

/// The time of draw number `draw` of a worker, relative to the nominal time.
[[nodiscard]] double time_factor(const TimeVariation& variation, int worker, int workers,
                                 std::int64_t draw);

/// "1x2": how many, and how many times as long; "0.05x10": a chance. Throws Error(Usage).
struct CountAndFactor {
  double count = 0;
  double factor = 1;
};
[[nodiscard]] CountAndFactor parse_count_and_factor(std::string_view text);

}  // namespace trireme::simulate
