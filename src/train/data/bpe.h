// GPT-2's byte-level byte-pair encoding, from a tokenizer.json of Hugging Face. Any thread.
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

/// Text to tokens and back. Any bytes can be encoded, and decode(encode(text)) is the text.
class BpeTokenizer {
 public:
  /// Reads a tokenizer.json. Throws Error(Input) that begins with `what` if it is malformed or of another
  /// kind than GPT-2's: a model that is not BPE, a normalizer, a pre-tokenizer other than ByteLevel with
  /// its own pattern and no added space, prefixes or suffixes of words, dropout, a byte without a token.
  BpeTokenizer(std::string_view json, std::string_view what);

  /// Added tokens, such as <|endoftext|>, are recognized wherever they stand in the text.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of the tokens; not always UTF-8, as a token may be a part of a character. Throws
  /// Error(Usage) on a number that is no token.
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

/// Throws Error(System) if the file cannot be read, else as the constructor does.
[[nodiscard]] BpeTokenizer load_tokenizer(const std::string& path);

/// A text file, encoded at once. Throws Error(Input) if it is empty, Error(System) if it cannot be read.
[[nodiscard]] Tokens open_text(const std::string& path, const BpeTokenizer& tokenizer);

}  // namespace trireme::train
