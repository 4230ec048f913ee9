// Splits text into words before byte-pair encoding. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::train {

/// The regular expressions of tokenizers, by the model that introduced them. Llama 3 and Qwen 2 differ in how many digits
/// a word has: up to 3, or 1.
///
///   Gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   Llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
///           | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
enum class WordPattern : std::uint8_t { Gpt2, Llama3, Qwen2 };

/// The bytes of the first match of the pattern. Requires a text that is not empty.
[[nodiscard]] std::size_t first_word(std::string_view text, WordPattern pattern);

/// The consecutive matches of the pattern. They cover the whole text and are views into it. For GPT-2, "I've  2 cats"
/// becomes "I", "'ve", " ", " 2", " cats". A byte that is not UTF-8 counts as a character that is not a letter, number or
/// space.
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text, WordPattern pattern);

}  // namespace trireme::train
