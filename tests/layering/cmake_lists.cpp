#include "layering/cmake_lists.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace trireme::layering {

std::vector<Word> cmake_words(std::string_view text) {
  std::vector<Word> words;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    std::string code;
    for (char c : line.substr(0, line.find('#'))) {
      code += c == '(' || c == ')' ? std::string{' ', c, ' '} : std::string{c};
    }
    for (std::string_view word : split_words(code)) {
      words.push_back({std::string(word), number});
    }
  }
  return words;
}

std::vector<Word> arguments_of(std::string_view keyword, const std::vector<Word>& words) {
  constexpr std::array<std::string_view, 5> kEnds = {"PUBLIC_HEADERS", "SOURCES", "DEPENDS",
                                                     "LINKS", ")"};
  std::vector<Word> arguments;
  bool inside = false;
  for (const Word& word : words) {
    if (std::find(kEnds.begin(), kEnds.end(), word.text) != kEnds.end()) {
      inside = word.text == keyword;
    } else if (inside) {
      arguments.push_back(word);
    }
  }
  return arguments;
}

}  // namespace trireme::layering
