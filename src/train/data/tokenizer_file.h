// The validated contents of a Hugging Face tokenizer.json for byte-pair encoding. Callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/data/words.h"

namespace trireme::train {

/// Where a tokenizer of SentencePiece's kind adds a space to the text.
enum class AddedSpace : std::uint8_t { Never, First, Always };

/// How tokens of SentencePiece's kind spell a space.
inline constexpr std::string_view kSpelledSpace = "\u2581";

/// Tokens of SentencePiece's kind spell a space as U+2581, and characters without a token as bytes, <0x00> to <0xFF>.
struct SentencePiece {
  AddedSpace added_space = AddedSpace::Always;  ///< before the text, or also after each added token
  bool space_may_repeat = true;                 ///< adds the space even if the text starts with one
  bool splits_words = false;  ///< each space begins a word that is encoded by itself
};

struct TokenizerFile {
  std::unordered_map<std::string, std::int32_t> vocabulary;  ///< tokens as the file spells them
  std::vector<std::pair<std::string, std::string>> merges;   ///< in order of priority
  std::vector<std::pair<std::string, std::int32_t>> added;   ///< matched verbatim in the text
  /// A word that is a token is encoded as that token, regardless of the merges.
  bool ignore_merges = false;
  /// How byte-level BPE splits text into words. Without a pattern, the tokens are SentencePiece's.
  std::optional<WordPattern> pattern{};
  SentencePiece sentence_piece{};
  std::vector<std::int32_t> beginning{};  ///< tokens that the file's template puts before a text
};

/// Throws Error(Input) that begins with `what` on anything malformed or not supported.
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view what);

}  // namespace trireme::train
