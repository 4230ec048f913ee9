// What a tokenizer.json of Hugging Face holds for byte-level BPE, checked. Any thread.
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
  std::vector<std::pair<std::string, std::string>> merges;   ///< the first comes first
  std::vector<std::pair<std::string, std::int32_t>> added;   ///< taken from the text as they stand
};

/// Throws Error(Input) that begins with `what` on anything malformed or that GPT-2's way does not have.
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view what);

}  // namespace trireme::train
