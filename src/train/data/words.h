// GPT-2's way to cut text into pieces before byte-pair encoding. Any thread.
#pragma once

#include <string_view>
#include <vector>

namespace trireme::train {

/// The matches, one after the other, of
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// They are all of the text, and views into it. "I've  2 cats" is "I", "'ve", " ", " 2", " cats". A byte
/// that is not UTF-8 counts as a character that is no letter, number or space.
[[nodiscard]] std::vector<std::string_view> split_gpt2_words(std::string_view text);

}  // namespace trireme::train
