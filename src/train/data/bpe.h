// Byte-pair encoding, from a Hugging Face tokenizer.json. Callable from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "train/data/tokenizer_file.h"
#include "train/data/tokens.h"

namespace trireme::train {

/// Converts text to tokens and back. Any bytes can be encoded. Byte-level tokenizers (GPT-2, Llama 3, Qwen 2) give the
/// text back: decode(encode(text)) == text. So do SentencePiece's (Llama 2, Mistral), except for the spaces that they add.
class BpeTokenizer {
 public:
  /// Parses a tokenizer.json. Throws Error(Input) that begins with `what` if it is malformed or of another kind: a model
  /// other than BPE, a normalizer or pre-tokenizer that is not known, word prefixes or suffixes, dropout, or a byte
  /// without a token.
  BpeTokenizer(std::string_view json, std::string_view what);

  /// Recognizes added tokens, such as <|endoftext|>, anywhere in the text.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The same piece by piece: calls `sink` with some of the tokens at a time, and the number of bytes of the text
  /// encoded so far.
  using Sink = std::function<void(std::span<const std::int32_t> tokens, std::size_t bytes)>;
  void encode(std::string_view text, const Sink& sink) const;

  /// The bytes of the tokens; not always UTF-8, as a token may be part of a character. Throws Error(Usage) on an
  /// invalid token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// The bytes of one token within a text. Throws as decode().
  [[nodiscard]] const std::string& bytes_of(std::int32_t token) const;
  /// Tokens that belong before a text, such as <|begin_of_text|>; encode() does not add them.
  [[nodiscard]] const std::vector<std::int32_t>& beginning() const noexcept { return beginning_; }
  /// One more than the largest token.
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return bytes_of_.count(); }

 private:
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t result = 0;
  };
  class WordEncoder;
  class AddedFinder;

  void keep_bytes(std::int32_t token, std::string bytes);
  void keep_tokens(const TokenizerFile& file, std::string_view what);
  void keep_merges(const TokenizerFile& file, std::string_view what);
  /// The text as the tokens spell it, if they are SentencePiece's.
  [[nodiscard]] std::string spelled(std::string_view text, bool is_first) const;
  /// The bytes of the first word.
  [[nodiscard]] std::size_t first_word_of(std::string_view text) const;

  std::optional<WordPattern> pattern_;
  SentencePiece sentence_piece_;
  bool words_begin_with_space_ = false;  ///< no token has a space after another character
  std::array<std::int32_t, 256> byte_tokens_{};
  /// By their bytes as words have them: characters of SentencePiece, or whole words if merges are ignored.
  std::unordered_map<std::string, std::int32_t> whole_;
  bool ignore_merges_ = false;
  std::unordered_map<std::uint64_t, Merge> merges_;    ///< by left and right token
  IndexedVector<std::int32_t, std::string> bytes_of_;  ///< by token id; empty for unused ids
  std::vector<std::pair<std::string, std::int32_t>> added_;
  std::vector<std::int32_t> beginning_;
};

/// The tokenizer.json in a folder; other paths stand for themselves.
[[nodiscard]] std::string tokenizer_file(const std::string& path);

/// Of a tokenizer.json, or of a folder with one. Throws Error(Input) if the file is missing; otherwise as the constructor.
[[nodiscard]] BpeTokenizer load_tokenizer(const std::string& path);

/// Reads and encodes a whole text file. Throws Error(Input) if it is missing or empty.
[[nodiscard]] Tokens open_text(const std::string& path, const BpeTokenizer& tokenizer);

}  // namespace trireme::train
