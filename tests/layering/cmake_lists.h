// Reads a CMakeLists.txt of src/. Any thread.
#pragma once

#include <string_view>
#include <vector>

#include "layering/source_files.h"

namespace trireme::layering {

/// The words of a CMakeLists.txt without comments; a parenthesis is a separate word.
[[nodiscard]] std::vector<Word> cmake_words(std::string_view text);

/// The arguments of a keyword of trireme_library(), up to the next keyword or the closing
/// parenthesis.
[[nodiscard]] std::vector<Word> arguments_of(std::string_view keyword,
                                             const std::vector<Word>& words);

}  // namespace trireme::layering
