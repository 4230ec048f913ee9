// Documents with a few bytes wrong, for tests of parsers.
#pragma once

#include <array>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace trireme {

/// The text with `to` instead of the first `from`, which must be in it.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no '" << from << "' in: " << text;
    return text;
  }
  return text.replace(at, from.size(), to);
}

/// The text with one to three random edits: bytes cut out, changed, repeated, or JSON's traps put
/// in. `text` must not be empty.
inline std::string damaged(std::string text, std::mt19937& random) {
  for (unsigned edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text.erase(at, 1 + random() % 40);
        break;
      case 1:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 80));
        break;
      default:
        text.insert(at, std::array{"-", "9e99", "null", "[[", "{}", "1e400"}.at(random() % 6));
    }
  }
  return text;
}

}  // namespace trireme
