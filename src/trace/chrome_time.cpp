#include "trace/chrome_time.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"

namespace trireme {
namespace {

/// A finite positive number as 0.DIGITS * 10^point.
struct Decimal {
  std::string digits;
  int point = 0;
};

Decimal shortest_decimal(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::scientific);
  TRIREME_CHECK(result.ec == std::errc(),
                "the shortest form of a double has at most 24 characters");
  const std::string_view text(buffer.data(), result.ptr - buffer.data());
  const std::size_t e = text.find('e');
  Decimal decimal;
  decimal.digits = text.substr(0, 1);
  if (e > 2) {
    decimal.digits += text.substr(2, e - 2);
  }
  const std::string_view exponent = text.substr(text[e + 1] == '+' ? e + 2 : e + 1);
  decimal.point = static_cast<int>(parse_integer(exponent).value_or(0)) + 1;
  return decimal;
}

void append_decimal(std::string& out, const Decimal& decimal) {
  constexpr int kMaxZeros = 6;
  const int length = static_cast<int>(decimal.digits.size());
  if (decimal.point < -kMaxZeros || decimal.point > length + kMaxZeros) {
    fmt::format_to(std::back_inserter(out), "0.{}e{}", decimal.digits, decimal.point);
  } else if (decimal.point <= 0) {
    out += "0.";
    out.append(-decimal.point, '0');
    out += decimal.digits;
  } else if (decimal.point >= length) {
    out += decimal.digits;
    out.append(decimal.point - length, '0');
  } else {
    const std::size_t point = decimal.point;
    out.append(decimal.digits, 0, point).append(1, '.').append(decimal.digits, point);
  }
}

}  // namespace

void append_microseconds(std::string& out, Seconds time) {
  TRIREME_CHECK(std::isfinite(time.count), "JSON has no infinity and no NaN");
  if (time.count == 0) {
    out += '0';
    return;
  }
  if (time.count < 0) {
    out += '-';
  }
  Decimal decimal = shortest_decimal(std::abs(time.count));
  decimal.point += 6;
  append_decimal(out, decimal);
}

std::optional<Seconds> parse_microseconds(std::string_view text) {
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  std::int64_t exponent = 0;
  if (e < text.size()) {
    const std::size_t plus = e + 1 < text.size() && text[e + 1] == '+' ? 1 : 0;
    const std::optional<std::int64_t> written = parse_integer(text.substr(e + 1 + plus));
    if (!written || std::abs(*written) > 1000) {
      return std::nullopt;
    }
    exponent = *written;
  }
  const std::string seconds = fmt::format("{}e{}", text.substr(0, e), exponent - 6);
  double value = 0;
  const char* end = seconds.data() + seconds.size();
  const auto [stop, error] = std::from_chars(seconds.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return Seconds{value};
}

}  // namespace trireme
