// A long sequence of tokens, from any source. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace trireme {
class MappedFile;
}

namespace trireme::train {

/// Immutable tokens, each in [0, vocabulary()). Copies share them.
class Tokens {
 public:
  /// Throws Error(Usage) if a token is not below `vocabulary`. `name` is for messages.
  Tokens(std::vector<std::int32_t> tokens, std::int32_t vocabulary, std::string name);

  [[nodiscard]] std::int64_t size() const noexcept {
    return pieces_.empty() ? 0 : pieces_.back().end;
  }
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
  /// Name used in messages, such as a file's path.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Copies out.size() tokens, starting at index `first`. Requires that many tokens. Throws Error(Input) if their file
  /// has been truncated.
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

  friend Tokens open_bytes(const std::string& path);
  friend Tokens joined(const std::vector<Tokens>& parts, std::string name);
  friend Tokens open_token_file(const std::string& path, std::int32_t vocabulary);

 private:
  using Data = std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
                            std::span<const std::int32_t>, std::span<const std::uint32_t>>;
  Tokens(Data data, std::shared_ptr<const MappedFile> file, std::int32_t vocabulary,
         std::string name);

  struct Piece {
    std::int64_t end = 0;  ///< index of the token behind its last
    Data data{};
    std::shared_ptr<const std::vector<std::int32_t>> owner{};
    std::shared_ptr<const MappedFile> file{};  ///< if the tokens are in a file

    /// The tokens from index `first` of the whole sequence on.
    void copy(std::int64_t first, std::span<std::int32_t> out) const;
  };
  void add(Data data, std::shared_ptr<const std::vector<std::int32_t>> owner,
           std::shared_ptr<const MappedFile> file);

  std::vector<Piece> pieces_;
  std::int32_t vocabulary_;
  std::string name_;
};

/// Concatenates sequences. The vocabulary is the largest of theirs.
[[nodiscard]] Tokens joined(const std::vector<Tokens>& parts, std::string name);

inline constexpr std::int32_t kBytesVocabulary = 256;
inline constexpr std::int32_t kGpt2Vocabulary = 50257;
inline constexpr std::int32_t kLlama3Vocabulary = 128256;

/// Any file, one token per byte. The file is mapped. Throws Error(Input) if it is missing or empty.
[[nodiscard]] Tokens open_bytes(const std::string& path);

/// A kind of token file with a header of this many 32-bit numbers: `magic`, `version`, the number of tokens, zeros.
struct TokenFileKind {
  std::int32_t magic = 0;
  std::int32_t version = 0;
  int width = 0;  ///< bytes per token
};
inline constexpr std::size_t kTokenHeaderNumbers = 256;
/// The kind that has room for tokens of this vocabulary: llm.c's for GPT-2 or, beyond 65536 tokens, for Llama 3.
[[nodiscard]] TokenFileKind token_file_kind(std::int32_t vocabulary);

/// Bytes per token of a token file, from its header: 4 with llm.c's header for Llama 3, else 2. Throws as
/// open_token_file().
[[nodiscard]] int token_width(const std::string& path);

/// A file of tokens: llm.c's, with a header of 256 32-bit numbers, or nanoGPT's, which has two-byte tokens and no
/// header. llm.c's header starts with
///
///   20240520, version 1, the number of tokens   two-byte tokens (GPT-2)
///   20240801, version 7, the number of tokens   four-byte tokens (Llama 3)
///
/// The file is mapped, and is read once to check every token. Throws Error(Input) if it is missing or empty, has an
/// odd size, does not match the size or version in its header, or contains a token that is not below `vocabulary`.
[[nodiscard]] Tokens open_token_file(const std::string& path, std::int32_t vocabulary);

}  // namespace trireme::train
