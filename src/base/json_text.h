// Writing JSON by hand. Callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// Appends `text` in quotes, escaped. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Appends the shortest text that parses back as exactly this double and not as an integer: "5.0",
/// "1e-09". Requires a finite number.
void append_json_number(std::string& out, double number);

/// How long the UTF-8 character at the start of `text` is, or 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace trireme
