// Reads a source tree: its files and what they include. Reads files only; any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::layering {

/// A word of a file and its line number.
struct Word {
  std::string text;
  int line = 0;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// All files below root/top, relative to root, sorted; empty if there is no such folder.
[[nodiscard]] std::vector<std::string> files_below(const std::filesystem::path& root,
                                                   const char* top);

[[nodiscard]] bool is_cpp(std::string_view name);

/// The names in the `#include "x"` and `#include <x>` lines of a file's text.
[[nodiscard]] std::vector<Word> includes_of(std::string_view text);

}  // namespace trireme::layering
