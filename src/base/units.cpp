#include "trireme/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKibi = 1024.0;
constexpr std::array<Unit, 14> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"K", kKibi},
                                           {"M", kKibi* kKibi},
                                           {"G", kKibi* kKibi* kKibi},
                                           {"T", kKibi* kKibi* kKibi* kKibi},
                                           {"KiB", kKibi},
                                           {"MiB", kKibi* kKibi},
                                           {"GiB", kKibi* kKibi* kKibi},
                                           {"TiB", kKibi* kKibi* kKibi* kKibi},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12}}};

/// Below a second, a time unit is a power of ten, so that "0.1ns" is parsed as the decimal 0.1e-9, rounded once.
struct TimeUnit {
  std::string_view name;
  int exponent;
  double factor = 1;
};
constexpr std::array<TimeUnit, 8> kTimeUnits{{{"", 0},
                                              {"s", 0},
                                              {"ms", -3},
                                              {"us", -6},
                                              {"µs", -6},
                                              {"ns", -9},
                                              {"min", 0, 60},
                                              {"h", 0, 3600}}};

/// Longer than any wait; keeps products with sizes finite.
constexpr double kLongestTime = 1e9;

struct Quantity {
  std::string_view number;
  std::string_view unit;
};

/// Splits "1.5us" into its number and its unit. An 'e' belongs to the number if digits follow it.
Quantity split_quantity(std::string_view text) {
  text = trim(text);
  double ignored = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  const std::size_t length = error == std::errc() ? end - text.data() : 0;
  return {text.substr(0, length), trim(text.substr(length))};
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

[[noreturn]] void bad_size(std::string_view text, std::string_view why) {
  throw Error(
      ErrorKind::Usage,
      fmt::format("'{}' is not a size: {}; write it like 512, 64KiB, 1M or 10MB", text, why));
}

std::string significant(double value) {
  return fmt::format("{:.4g}", value);
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const Quantity quantity = split_quantity(text);
  const std::optional<double> number = parse_number(quantity.number);
  if (!number) {
    bad_size(text, "it does not start with a number");
  }
  if (*number < 0) {
    bad_size(text, "it is negative");
  }
  for (const Unit& unit : kByteUnits) {
    if (unit.name == quantity.unit) {
      const double bytes = *number * unit.factor;
      if (bytes != std::floor(bytes)) {
        bad_size(text, "it is not a whole number of bytes");
      }
      if (bytes >= 0x1p63) {
        bad_size(text, "it does not fit in 63 bits");
      }
      // A plain integer is parsed as one, so that every value up to 2^63 is exact.
      const std::optional<std::int64_t> exact = parse_integer(quantity.number);
      return {unit.factor == 1 && exact ? *exact : static_cast<std::int64_t>(bytes)};
    }
  }
  bad_size(text, fmt::format("unknown size unit '{}'", quantity.unit));
}

Seconds parse_seconds(std::string_view text) {
  const Quantity quantity = split_quantity(text);
  for (const TimeUnit& unit : kTimeUnits) {
    if (unit.name != quantity.unit) {
      continue;
    }
    const bool has_exponent = quantity.number.find_first_of("eE") != std::string_view::npos;
    std::optional<double> seconds;
    if (has_exponent) {
      seconds = parse_number(quantity.number);
      if (seconds) {
        *seconds *= std::pow(10.0, unit.exponent);
      }
    } else if (!quantity.number.empty()) {
      seconds = parse_number(fmt::format("{}e{}", quantity.number, unit.exponent));
    }
    if (seconds && *seconds >= 0 && *seconds * unit.factor <= kLongestTime) {
      return {*seconds * unit.factor};
    }
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("'{}' is not a time; write it like 1.5us, 20ns, 3ms, 2s or 1e-6 (seconds)",
                  text));
}

std::string to_text(Bytes bytes) {
  static constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  while (std::abs(value) >= kKibi && unit + 1 < kNames.size()) {
    value /= kKibi;
    ++unit;
  }
  return fmt::format("{} {}", significant(value), kNames.at(unit));
}

std::string to_text(Seconds seconds) {
  const double magnitude = std::abs(seconds.count);
  if (magnitude == 0) {
    return "0 s";
  }
  if (magnitude < 0.9995e-6) {
    return significant(seconds.count * 1e9) + " ns";
  }
  if (magnitude < 0.9995e-3) {
    return significant(seconds.count * 1e6) + " us";
  }
  if (magnitude < 0.9995) {
    return significant(seconds.count * 1e3) + " ms";
  }
  return significant(seconds.count) + " s";
}

}  // namespace trireme
