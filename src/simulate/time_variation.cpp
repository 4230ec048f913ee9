#include "trireme/time_variation.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "trireme/error.h"

namespace trireme::simulate {
namespace {

constexpr auto kJitters = enum_names<Jitter>("none", "uniform", "exponential");

/// splitmix64's output function: all bits of the result depend on all bits of x.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// What a draw is for.
enum class Purpose : std::uint64_t { Jitter = 1, Transient = 2 };

/// Uniform in (0, 1).
double uniform(std::uint64_t seed, int worker, std::int64_t draw, Purpose purpose) {
  std::uint64_t bits = mixed(seed ^ (static_cast<std::uint64_t>(purpose) << 60U));
  bits = mixed(bits ^ static_cast<std::uint64_t>(worker));
  bits = mixed(bits ^ static_cast<std::uint64_t>(draw));
  return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53;
}

double jitter_factor(const TimeVariation& v, int worker, std::int64_t draw) {
  switch (v.jitter) {
    case Jitter::None:
      return 1;
    case Jitter::Uniform:
      return 1 + v.spread * (2 * uniform(v.seed, worker, draw, Purpose::Jitter) - 1);
    case Jitter::Exponential:
      return -std::log(uniform(v.seed, worker, draw, Purpose::Jitter));
  }
  return 1;
}

std::optional<double> parse_number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  return copy.empty() || end != copy.c_str() + copy.size() || !std::isfinite(value)
             ? std::nullopt
             : std::optional(value);
}

}  // namespace

std::string_view to_text(Jitter jitter) {
  return kJitters[jitter];
}

Jitter parse_jitter(std::string_view text) {
  return kJitters.parse("jitter", text);
}

std::vector<std::string> problems(const TimeVariation& v) {
  std::vector<std::string> found;
  const auto check = [&](bool holds, std::string problem) {
    if (!holds) {
      found.push_back(std::move(problem));
    }
  };
  check(v.spread >= 0 && v.spread <= 1,
        fmt::format("the spread of the jitter is {}; it must be from 0 to 1", v.spread));
  check(v.slow_workers >= 0, fmt::format("{} slow workers; use 0 or more", v.slow_workers));
  check(std::isfinite(v.slow_factor) && v.slow_factor > 0,
        fmt::format("slow workers take {} times as long; it must be more than 0", v.slow_factor));
  check(v.transient_chance >= 0 && v.transient_chance <= 1,
        fmt::format("the chance of a straggler is {}; it must be from 0 to 1", v.transient_chance));
  check(
      std::isfinite(v.transient_factor) && v.transient_factor > 0,
      fmt::format("stragglers take {} times as long; it must be more than 0", v.transient_factor));
  return found;
}

double time_factor(const TimeVariation& v, int worker, int workers, std::int64_t draw) {
  double factor = jitter_factor(v, worker, draw);
  if (worker >= workers - v.slow_workers) {
    factor *= v.slow_factor;
  }
  if (v.transient_chance > 0 &&
      uniform(v.seed, worker, draw, Purpose::Transient) < v.transient_chance) {
    factor *= v.transient_factor;
  }
  return factor;
}

CountAndFactor parse_count_and_factor(std::string_view text) {
  const std::size_t x = text.find('x');
  const std::optional<double> count = parse_number(text.substr(0, x));
  const std::optional<double> factor =
      x == std::string_view::npos ? std::nullopt : parse_number(text.substr(x + 1));
  if (!count || !factor || *count < 0 || *factor <= 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("invalid value '{}': expected NUMBERxFACTOR, such as 1x2", text));
  }
  return {*count, *factor};
}

}  // namespace trireme::simulate
