// The validated contents of a Hugging Face tokenizer.json for byte-level BPE. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trireme::train {

struct TokenizerFile {
  std::unordered_map<std::string, std::int32_t> vocabulary;  ///< tokens as the file spells them
  std::vector<std::pair<std::string, std::string>> merges;   ///< in order of priority
  std::vector<std::pair<std::string, std::int32_t>> added;   ///< matched verbatim in the text
};

/// Throws Error(Input) that begins with `what` on anything malformed or not supported by GPT-2's encoding.
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view what);

}  // namespace trireme::train
