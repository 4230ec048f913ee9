// A long sequence of tokens, from any source. Callable from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace trireme::train {

/// Immutable tokens, each in [0, vocabulary()). Copies share them.
class Tokens {
 public:
  /// Throws Error(Usage) if a token is not below `vocabulary`. `name` is for messages.
  Tokens(std::vector<std::int32_t> tokens, std::int32_t vocabulary, std::string name);

  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
  /// Name used in messages, such as a file's path.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Copies out.size() tokens, starting at index `first`. Requires that many tokens.
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

/// Any file, one token per byte. The file is mapped and must not shrink. Throws Error(Input) if it is empty,
/// Error(System) if it cannot be read.
[[nodiscard]] Tokens open_bytes(const std::string& path);

/// A file of two-byte tokens: llm.c's (a header of 256 32-bit numbers, starting with 20240520, the version 1 and the
/// number of tokens) or, without that header, nanoGPT's (tokens only). The file is mapped, must not shrink, and is read
/// once to check every token. Throws Error(Input) if it is empty, has an odd size, does not match the size or version
/// in its header, or contains a token that is not below `vocabulary`; Error(System) if it cannot be read.
[[nodiscard]] Tokens open_token_file(const std::string& path,
                                     std::int32_t vocabulary = kGpt2Vocabulary);

}  // namespace trireme::train
