#include "train/step/learning_rate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/setting_list.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {
namespace {

constexpr auto kShapes = enum_names<Decay>("constant", "linear", "cosine", "wsd");

[[noreturn]] void refuse_rate(const std::string& problem) {
  throw Error(ErrorKind::Usage, fmt::format("learning rate: {}", problem));
}

Decay parse_shape_name(std::string_view name) {
  if (const std::optional<Decay> shape = kShapes.find(name)) {
    return *shape;
  }
  refuse_rate(
      fmt::format("unknown schedule {}; write a number, or constant, linear, cosine or wsd, as in "
                  "'cosine:0.001,warmup=100,steps=2000'",
                  in_quotes(name)));
}

std::optional<double> find_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

double parse_rate(std::string_view what, std::string_view text) {
  const std::optional<double> value = find_number(text);
  if (!value || !std::isfinite(*value) || *value < 0) {
    refuse_rate(fmt::format("{} is {}; it must be a number of 0 or more", what, in_quotes(text)));
  }
  return *value;
}

/// With another peak.
LearningRate scaled(LearningRate rate, double peak) {
  rate.least = rate.peak > 0 ? rate.least * peak / rate.peak : 0;
  rate.peak = peak;
  return rate;
}

std::int64_t parse_steps(std::string_view what, std::string_view text) {
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value || *value < 0) {
    refuse_rate(fmt::format("{} is {}; it must be an integer of 0 or more", what, in_quotes(text)));
  }
  return *value;
}

/// The settings of a schedule of this shape, besides its peak.
std::vector<std::string> settings_of(Decay shape) {
  switch (shape) {
    case Decay::Constant:
      return {"warmup"};
    case Decay::Stable:
      return {"warmup", "steps", "decay", "least"};
    case Decay::Linear:
    case Decay::Cosine:
      return {"warmup", "steps", "least"};
  }
  return {};
}

void set(LearningRate& rate, std::string_view name, std::string_view value) {
  const std::vector<std::string> known = settings_of(rate.shape);
  if (std::ranges::find(known, name) == known.end()) {
    refuse_rate(unknown_name(fmt::format("setting of {}", to_text(rate.shape)), name, known));
  }
  if (name == "least") {
    rate.least = parse_rate(name, value);
  } else {
    std::int64_t& steps = name == "warmup"  ? rate.warmup
                          : name == "steps" ? rate.steps
                                            : rate.decay;
    steps = parse_steps(name, value);
  }
}

void check(const LearningRate& rate) {
  if (rate.shape == Decay::Constant) {
    return;
  }
  if (rate.steps < 1) {
    refuse_rate("needs the length of the run, such as steps=1000");
  }
  if (rate.warmup > rate.steps || rate.decay > rate.steps - rate.warmup) {
    refuse_rate(fmt::format("a run of {} is shorter than its warmup of {}{}",
                            plural(rate.steps, "step"), rate.warmup,
                            rate.decay > 0 ? fmt::format(" and decay of {}", rate.decay) : ""));
  }
  if (rate.shape == Decay::Stable && rate.decay < 1) {
    refuse_rate("wsd needs the length of its decay, such as decay=200");
  }
  if (rate.least > rate.peak) {
    refuse_rate(fmt::format("the least rate, {}, is above the peak, {}", rate.least, rate.peak));
  }
}

std::string setting(std::string_view name, std::int64_t value) {
  return value == 0 ? "" : fmt::format(",{}={}", name, value);
}

}  // namespace

double LearningRate::at(std::int64_t step) const {
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (shape == Decay::Constant) {
    return peak;
  }
  const std::int64_t begin = shape == Decay::Stable ? steps - decay : warmup;
  if (step >= steps || step < begin) {
    return step < begin ? peak : least;
  }
  const double done = static_cast<double>(step - begin) / static_cast<double>(steps - begin);
  const double left =
      shape == Decay::Cosine ? (1 + std::cos(std::numbers::pi * done)) / 2 : 1 - done;
  return least + (peak - least) * left;
}

std::string_view to_text(Decay decay) {
  return kShapes[decay];
}

std::string to_text(const LearningRate& rate) {
  return fmt::format("{}:{}{}{}{}{}", to_text(rate.shape), rate.peak,
                     setting("warmup", rate.warmup), setting("steps", rate.steps),
                     setting("decay", rate.decay),
                     rate.least == 0 ? "" : fmt::format(",least={}", rate.least));
}

LearningRate parse_learning_rate(std::string_view text, const LearningRate& otherwise) {
  if (find_number(trim(text))) {
    return scaled(otherwise, parse_rate("the peak", trim(text)));
  }
  const std::size_t colon = text.find(':');
  LearningRate rate{.shape = parse_shape_name(trim(text.substr(0, colon)))};
  rate.steps = rate.shape == Decay::Constant ? 0 : otherwise.steps;
  if (colon == std::string_view::npos) {
    refuse_rate(fmt::format("{} has no peak; write it as in 'constant:0.001'", in_quotes(text)));
  }
  const SettingList list = split_settings(text.substr(colon + 1));
  rate.peak = parse_rate("the peak", list.head);
  if (const auto name = list.repeated_name()) {
    refuse_rate(fmt::format("{} is given twice", in_quotes(*name)));
  }
  for (const auto& [name, value] : list.settings) {
    set(rate, name, value.value_or(""));
  }
  check(rate);
  return rate;
}

}  // namespace trireme::train
