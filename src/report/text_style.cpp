#include "report/text_style.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/enum_names.h"

namespace trireme::report {

std::string styled(std::string_view text, Style style, bool color) {
  static constexpr auto kCodes = enum_names<Style>("1", "2", "32", "31");
  if (!color) {
    return std::string(text);
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[style], text);
}

int display_width(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string spaces(int count) {
  return std::string(std::max(count, 0), ' ');
}

std::string padded(std::string_view text, int width) {
  return std::string(text) + spaces(width - display_width(text));
}

std::string right_aligned(std::string_view text, int width) {
  return spaces(width - display_width(text)) + std::string(text);
}

}  // namespace trireme::report
