// Optimizers as text: a name, then settings.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/setting_list.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/training.h"

namespace trireme {
namespace {

/// A setting of an optimizer, in its value.
struct Setting {
  enum class Kind : std::uint8_t { Share, Positive, Amount, Switch } kind;
  std::string_view name;
  double* number = nullptr;
  bool* flag = nullptr;  ///< of a Switch
};
using Kind = Setting::Kind;

std::vector<Setting> settings_of(Sgd& o) {
  return {{Kind::Amount, "weight-decay", &o.decay}};
}
std::vector<Setting> settings_of(Momentum& o) {
  return {{Kind::Share, "momentum", &o.momentum},
          {Kind::Switch, "nesterov", nullptr, &o.nesterov},
          {Kind::Amount, "weight-decay", &o.decay}};
}
std::vector<Setting> settings_of(Adagrad& o) {
  return {{Kind::Positive, "eps", &o.epsilon}, {Kind::Amount, "weight-decay", &o.decay}};
}
std::vector<Setting> settings_of(AdamW& o) {
  return {{Kind::Share, "beta1", &o.beta1},
          {Kind::Share, "beta2", &o.beta2},
          {Kind::Positive, "eps", &o.epsilon},
          {Kind::Amount, "weight-decay", &o.decay}};
}
std::vector<Setting> settings_of(Lion& o) {
  return {{Kind::Share, "beta1", &o.beta1},
          {Kind::Share, "beta2", &o.beta2},
          {Kind::Amount, "weight-decay", &o.decay}};
}
std::vector<Setting> settings_of(Muon& o) {
  return {{Kind::Share, "momentum", &o.momentum},
          {Kind::Share, "beta1", &o.beta1},
          {Kind::Share, "beta2", &o.beta2},
          {Kind::Positive, "eps", &o.epsilon},
          {Kind::Amount, "weight-decay", &o.decay}};
}

std::vector<Setting> settings_of(Optimizer& optimizer) {
  return std::visit([](auto& o) { return settings_of(o); }, optimizer);
}

struct NameOf {
  std::string_view operator()(const Sgd&) const { return "sgd"; }
  std::string_view operator()(const Momentum&) const { return "momentum"; }
  std::string_view operator()(const Adagrad&) const { return "adagrad"; }
  std::string_view operator()(const AdamW&) const { return "adamw"; }
  std::string_view operator()(const Lion&) const { return "lion"; }
  std::string_view operator()(const Muon&) const { return "muon"; }
};

/// The defaults of `trireme train`.
std::vector<Optimizer> defaults() {
  return {AdamW{.beta2 = 0.95, .decay = 0.1}, Sgd{}, Momentum{}, Adagrad{}, Lion{}, Muon{}};
}

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::Usage, problem);
}

Optimizer default_named(std::string_view name) {
  std::vector<std::string> names;
  const std::vector<Optimizer> all = defaults();
  for (const Optimizer& one : all) {
    names.emplace_back(name_of(one));
    if (names.back() == name) {
      return one;
    }
  }
  refuse(unknown_name("optimizer", name, names));
}

std::string_view expected(Kind kind) {
  switch (kind) {
    case Kind::Share:
      return "a number of 0 or more and below 1";
    case Kind::Positive:
      return "a number above 0";
    case Kind::Amount:
      return "a number of 0 or more";
    case Kind::Switch:
      return "on or off";
  }
  return "";
}

bool fits(Kind kind, double value) {
  return std::isfinite(value) && value >= 0 && (kind != Kind::Share || value < 1) &&
         (kind != Kind::Positive || value > 0);
}

/// Whether the text is a value of this setting.
bool assign(const Setting& setting, std::string_view text) {
  if (setting.kind == Kind::Switch) {
    *setting.flag = text == "on";
    return text == "on" || text == "off";
  }
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *setting.number);
  return error == std::errc() && end == text.data() + text.size() &&
         fits(setting.kind, *setting.number);
}

void read_setting(Optimizer& optimizer, std::string_view name, std::string_view text) {
  std::vector<std::string> names;
  for (const Setting& setting : settings_of(optimizer)) {
    names.emplace_back(setting.name);
    if (setting.name != name) {
      continue;
    }
    if (!assign(setting, text)) {
      refuse(fmt::format("{} of {} is {}; it must be {}", name, name_of(optimizer), in_quotes(text),
                         expected(setting.kind)));
    }
    return;
  }
  refuse(unknown_name(fmt::format("setting of {}", name_of(optimizer)), name, names));
}

}  // namespace

std::string_view name_of(const Optimizer& optimizer) {
  return std::visit(NameOf(), optimizer);
}

Optimizer parse_optimizer(std::string_view text) {
  const SettingList list = split_settings(text);
  Optimizer optimizer = default_named(list.head);
  if (const auto name = list.repeated_name()) {
    refuse(fmt::format("{} is given twice", in_quotes(*name)));
  }
  for (const auto& [name, value] : list.settings) {
    read_setting(optimizer, name, value.value_or(""));
  }
  return optimizer;
}

std::string to_text(const Optimizer& optimizer) {
  Optimizer copy = optimizer;  // settings are read through pointers that could write
  std::string text(name_of(copy));
  for (const Setting& setting : settings_of(copy)) {
    text += setting.kind == Kind::Switch
                ? fmt::format(",{}={}", setting.name, *setting.flag ? "on" : "off")
                : fmt::format(",{}={}", setting.name, *setting.number);
  }
  return text;
}

}  // namespace trireme
