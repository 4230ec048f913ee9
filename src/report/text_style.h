// Text for a terminal: styles and columns. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

namespace trireme::report {

/// The capabilities of a terminal.
struct Terminal {
  bool color = false;
  int width = 100;  ///< columns; 100 if the output is not a terminal
};

enum class Style { Bold, Dim, Good, Bad };

/// The text in this style, or unchanged without colors.
[[nodiscard]] std::string styled(std::string_view text, Style style, bool color);

/// Columns that UTF-8 text takes: one for each character that is not a continuation byte.
[[nodiscard]] int display_width(std::string_view text);

/// This many spaces; none if the count is negative.
[[nodiscard]] std::string spaces(int count);

/// The text, padded with spaces to `width` columns on the right (or on the left).
[[nodiscard]] std::string padded(std::string_view text, int width);
[[nodiscard]] std::string right_aligned(std::string_view text, int width);

}  // namespace trireme::report
