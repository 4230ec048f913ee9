#include "train/data/words.h"

#include <algorithm>
#include <array>
#include <string>

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

constexpr std::array<std::string_view, 7> kEndings{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

std::size_t contraction(std::string_view text) {
  const auto* const at = std::ranges::find_if(
      kEndings, [&](std::string_view ending) { return text.starts_with(ending); });
  return at == kEndings.end() ? 0 : at->size();
}

/// The same in upper case too.
std::size_t contraction_in_any_case(std::string_view text) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::string start(text.substr(0, 3));
  std::ranges::transform(start, start.begin(), lower);
  return contraction(start);
}

bool ends_line(char c) {
  return c == '\r' || c == '\n';
}

/// Leaves the last space before a word to that word, so that each word keeps one leading space.
std::size_t spaces(std::string_view text) {
  const Run run = run_of(CharacterClass::Space, text);
  const bool alone = run.bytes == run.last;
  return run.bytes == text.size() || alone ? run.bytes : run.bytes - run.last;
}

std::size_t first_gpt2_word(std::string_view text) {
  if (const std::size_t ending = contraction(text); ending > 0) {
    return ending;
  }
  const std::size_t space = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const std::string_view rest = text.substr(space);
  const CharacterClass type = first_character(rest).type;
  return type == CharacterClass::Space ? spaces(text) : space + run_of(type, rest).bytes;
}

/// Letters after at most one character that is not a letter, a number or the end of a line; 0 if there are none.
std::size_t letters_after_one(std::string_view text) {
  const Character first = first_character(text);
  if (first.type == CharacterClass::Letter) {
    return run_of(CharacterClass::Letter, text).bytes;
  }
  if (first.type == CharacterClass::Number || ends_line(text.front())) {
    return 0;
  }
  const std::size_t letters = run_of(CharacterClass::Letter, text.substr(first.bytes)).bytes;
  return letters > 0 ? first.bytes + letters : 0;
}

/// At most `most` digits.
std::size_t digits(std::string_view text, int most) {
  std::size_t bytes = 0;
  for (int i = 0; i < most && bytes < text.size(); ++i) {
    const Character next = first_character(text.substr(bytes));
    if (next.type != CharacterClass::Number) {
      break;
    }
    bytes += next.bytes;
  }
  return bytes;
}

/// Characters that are not letters, numbers or spaces, after at most one space, with the ends of lines that follow.
std::size_t others_to_line_end(std::string_view text) {
  const std::size_t space = text.front() == ' ' ? 1 : 0;
  const std::size_t others = run_of(CharacterClass::Other, text.substr(space)).bytes;
  if (others == 0) {
    return 0;
  }
  std::size_t end = space + others;
  while (end < text.size() && ends_line(text[end])) {
    ++end;
  }
  return end;
}

/// Spaces up to the last end of a line among them; 0 if there is none.
std::size_t spaces_to_line_end(std::string_view text) {
  const std::string_view run = text.substr(0, run_of(CharacterClass::Space, text).bytes);
  const std::size_t last = run.find_last_of("\r\n");
  return last == std::string_view::npos ? 0 : last + 1;
}

/// The first alternative that matches.
std::size_t first_llama3_word(std::string_view text, int most_digits) {
  for (const std::size_t bytes :
       {contraction_in_any_case(text), letters_after_one(text), digits(text, most_digits),
        others_to_line_end(text), spaces_to_line_end(text)}) {
    if (bytes > 0) {
      return bytes;
    }
  }
  return spaces(text);
}

}  // namespace

std::size_t first_word(std::string_view text, WordPattern pattern) {
  switch (pattern) {
    case WordPattern::Llama3:
      return first_llama3_word(text, 3);
    case WordPattern::Qwen2:
      return first_llama3_word(text, 1);
    case WordPattern::Gpt2:
      break;
  }
  return first_gpt2_word(text);
}

std::vector<std::string_view> split_words(std::string_view text, WordPattern pattern) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, first_word(text, pattern)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

}  // namespace trireme::train
