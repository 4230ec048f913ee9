// Small text helpers shared by the parsers of the text forms. Callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The pieces of `text` between runs of spaces and tabs; no empty ones. The views point into
/// `text`.
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text);

[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

[[nodiscard]] std::string_view trim(std::string_view text);

/// The whole text as a decimal integer, or nothing ("12" yes; "", "12x", "1e3", out of range no).
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

/// "a, b or c": for messages that list the valid choices.
[[nodiscard]] std::string list_words(const std::vector<std::string>& words,
                                     std::string_view last_joint);

/// "1 rank", "3 ranks", "4 micro-batches".
[[nodiscard]] std::string plural(std::int64_t count, std::string_view thing);

/// The candidate nearest to `word` by edit distance, if it is close enough to be a typo; else one that begins with it.
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view word,
                                                      const std::vector<std::string>& candidates);

}  // namespace trireme
