// GPT-2's byte-level byte-pair encoding, from a Hugging Face tokenizer.json. Callable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/data/tokens.h"

namespace trireme::train {

/// Converts text to tokens and back. Any bytes can be encoded, and decode(encode(text)) == text.
class BpeTokenizer {
 public:
  /// Parses a tokenizer.json. Throws Error(Input) that begins with `what` if it is malformed or not of GPT-2's kind: a
  /// model other than BPE, a normalizer, a pre-tokenizer other than ByteLevel with its own pattern and no added space,
  /// word prefixes or suffixes, dropout, or a byte without a token.
  BpeTokenizer(std::string_view json, std::string_view what);

  /// Recognizes added tokens, such as <|endoftext|>, anywhere in the text.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of the tokens; not always UTF-8, as a token may be part of a character. Throws Error(Usage) on an
  /// invalid token.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// One more than the largest token.
  [[nodiscard]] std::int32_t vocabulary() const noexcept {
    return static_cast<std::int32_t>(bytes_of_.size());
  }

 private:
  struct Merge {
    std::int32_t rank = 0;
    std::int32_t result = 0;
  };
  class WordEncoder;
  class AddedFinder;

  void keep_bytes(std::int32_t token, std::string bytes);

  std::array<std::int32_t, 256> byte_tokens_{};
  std::unordered_map<std::uint64_t, Merge> merges_;  ///< by left and right token
  std::vector<std::string> bytes_of_;                ///< by token; "" if there is none
  std::vector<std::pair<std::string, std::int32_t>> added_;
};

/// Throws Error(System) if the file cannot be read; otherwise as the constructor.
[[nodiscard]] BpeTokenizer load_tokenizer(const std::string& path);

/// Reads and encodes a whole text file. Throws Error(Input) if it is empty, Error(System) if it cannot be read.
[[nodiscard]] Tokens open_text(const std::string& path, const BpeTokenizer& tokenizer);

}  // namespace trireme::train
