#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/setting_list.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/train_settings.h"

namespace trireme {
namespace {

[[noreturn]] void refuse_experts(const std::string& problem) {
  throw Error(ErrorKind::Usage, fmt::format("--experts: {}", problem));
}

std::int64_t whole(std::string_view what, std::string_view text) {
  const std::optional<std::int64_t> value = parse_integer(text);
  if (!value || *value < 0) {
    refuse_experts(fmt::format("expected {}, got {}", what, in_quotes(text)));
  }
  return *value;
}

double real(std::string_view what, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0) {
    refuse_experts(
        fmt::format("{}: expected a number of 0 or more, got {}", what, in_quotes(text)));
  }
  return value;
}

bool on_or_off(std::string_view what, std::string_view text) {
  if (text != "on" && text != "off") {
    refuse_experts(fmt::format("{} is {}; write on or off", what, in_quotes(text)));
  }
  return text == "on";
}

std::int64_t balance_groups(std::string_view text) {
  if (text != "batch" && text != "microbatch") {
    refuse_experts(fmt::format("per is {}; write batch or microbatch", in_quotes(text)));
  }
  return text == "batch" ? 1 : 0;
}

void set(ModelConfig& config, std::string_view name, std::string_view value) {
  if (name == "per-token") {
    config.experts_per_token = whole("per-token=NUMBER", value);
  } else if (name == "every") {
    config.mixture_every = whole("every=NUMBER", value);
  } else if (name == "gate") {
    config.gate_order = parsed("experts", std::string(value), parse_gate_order);
  } else if (name == "capacity") {
    config.capacity_factor = real(name, value);
  } else if (name == "balance") {
    config.balance_loss = real(name, value);
  } else if (name == "per") {
    config.balance_groups = balance_groups(value);
  } else if (name == "shared") {
    config.shared_experts = whole("shared=NUMBER", value);
  } else if (name == "noise") {
    config.noisy_router = on_or_off(name, value);
  } else {
    refuse_experts(unknown_name(
        "setting", name,
        {"per-token", "every", "gate", "capacity", "balance", "per", "shared", "noise"}));
  }
}

}  // namespace

void parse_experts(std::string_view text, ModelConfig& config) {
  const SettingList list = split_settings(text);
  config.experts = whole("a number of experts", list.head);
  if (const auto name = list.repeated_name()) {
    refuse_experts(fmt::format("{} is given twice", in_quotes(*name)));
  }
  for (const auto& [name, value] : list.settings) {
    set(config, name, value.value_or("on"));
  }
  require_valid(config);
}

}  // namespace trireme
