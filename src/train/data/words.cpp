#include "train/data/words.h"

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "train/data/unicode.h"

namespace trireme::train {
namespace {

struct Character {
  CharacterClass type = CharacterClass::Other;
  std::size_t bytes = 1;
};

/// Requires a non-empty text.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = utf8_length(text);
  if (length == 0) {
    return {};
  }
  char32_t code = length == 1 ? byte(0) : byte(0) & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  return {class_of(code), length};
}

/// A run of characters of one class at the start of a text.
struct Run {
  std::size_t bytes = 0;
  std::size_t last = 0;  ///< bytes of its last character
};

Run run_of(CharacterClass type, std::string_view text) {
  Run run;
  while (run.bytes < text.size()) {
    const Character next = first_character(text.substr(run.bytes));
    if (next.type != type) {
      break;
    }
    run.bytes += next.bytes;
    run.last = next.bytes;
  }
  return run;
}

std::size_t contraction(std::string_view text) {
  constexpr std::array<std::string_view, 7> kEndings{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  const auto* const at = std::ranges::find_if(
      kEndings, [&](std::string_view ending) { return text.starts_with(ending); });
  return at == kEndings.end() ? 0 : at->size();
}

/// Leaves the last space before a word to that word, so that each word keeps one leading space.
std::size_t spaces(std::string_view text) {
  const Run run = run_of(CharacterClass::Space, text);
  const bool alone = run.bytes == run.last;
  return run.bytes == text.size() || alone ? run.bytes : run.bytes - run.last;
}

std::size_t first_word(std::string_view text) {
  if (const std::size_t ending = contraction(text); ending > 0) {
    return ending;
  }
  const std::size_t space = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const std::string_view rest = text.substr(space);
  const CharacterClass type = first_character(rest).type;
  return type == CharacterClass::Space ? spaces(text) : space + run_of(type, rest).bytes;
}

}  // namespace

std::vector<std::string_view> split_gpt2_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, first_word(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

}  // namespace trireme::train
