// Tokenizes text files into a file that training reads directly. Callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/train_data.h"
#include "trireme/units.h"

namespace trireme {

struct TokenizeOptions {
  std::vector<std::string> files{};  ///< texts, folders of texts, or "-"
  std::string tokenizer{};           ///< a tokenizer.json, or a folder with one
  std::string output{};              ///< ends in .bin
  DataInput input{};
  /// Called periodically with the bytes of text done and in total.
  std::function<void(Bytes done, Bytes all)> on_progress{};
  /// Called as often; if it returns true, tokenize() throws Error(System).
  std::function<bool()> should_stop{};
};

struct TokenizeSummary {
  std::string output{};
  Bytes text{};
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;
  /// Bytes of a token in the file: 2, or 4 if the vocabulary has more than 65536 tokens.
  int token_bytes = 2;
};

/// Writes llm.c's format (see docs/data.md): all of the file or, if it fails, nothing. Throws Error(Usage) that names the
/// option; Error(Input) if a file is not text or there are more tokens than the format can count; Error(System) if
/// writing fails.
TokenizeSummary tokenize(const TokenizeOptions& options);

/// The line of `trireme tokenize --json`.
[[nodiscard]] std::string to_json(const TokenizeSummary& summary);

}  // namespace trireme
