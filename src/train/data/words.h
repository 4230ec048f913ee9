// GPT-2's splitting of text into pieces before byte-pair encoding. Callable from any thread.
#pragma once

#include <string_view>
#include <vector>

namespace trireme::train {

/// The consecutive matches of
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// They cover the whole text and are views into it. "I've  2 cats" becomes "I", "'ve", " ", " 2", " cats". A byte that
/// is not UTF-8 counts as a character that is not a letter, number or space.
[[nodiscard]] std::vector<std::string_view> split_gpt2_words(std::string_view text);

}  // namespace trireme::train
