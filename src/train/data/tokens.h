// A long sequence of tokens, wherever it comes from. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace trireme::train {

/// Tokens that never change, each in [0, vocabulary()). Copies share them.
class Tokens {
 public:
  /// Throws Error(Usage) if one is not below `vocabulary`. `name` is for messages.
  Tokens(std::vector<std::int32_t> tokens, std::int32_t vocabulary, std::string name);

  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
  /// What messages call it: a file's path, say.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Copies out.size() tokens from number `first` on. Requires that there are so many.
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

  friend Tokens open_bytes(const std::string& path);
  friend Tokens open_token_file(const std::string& path, std::int32_t vocabulary);

 private:
  using Data = std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
                            std::span<const std::int32_t>>;
  Tokens(Data data, std::shared_ptr<const void> owner, std::int32_t vocabulary, std::string name);

  Data data_;
  std::shared_ptr<const void> owner_;
  std::int32_t vocabulary_;
  std::string name_;
};

inline constexpr std::int32_t kBytesVocabulary = 256;
inline constexpr std::int32_t kGpt2Vocabulary = 50257;

/// Any file, a byte a token. The file is mapped and must not shrink. Throws Error(Input) if it is empty,
/// Error(System) if it cannot be read.
[[nodiscard]] Tokens open_bytes(const std::string& path);

/// A file of tokens of two bytes: llm.c's (256 numbers of 32 bits, of which the first are 20240520, the
/// version 1 and the number of tokens) or, without that beginning, nanoGPT's (tokens only). The file is
/// mapped, must not shrink, and is read once to check every token. Throws Error(Input) if it is empty,
/// of an odd size, of another size or version than its header says, or holds a token that is not below
/// `vocabulary`; Error(System) if it cannot be read.
[[nodiscard]] Tokens open_token_file(const std::string& path,
                                     std::int32_t vocabulary = kGpt2Vocabulary);

}  // namespace trireme::train
