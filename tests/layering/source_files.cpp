#include "layering/source_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/text.h"

namespace trireme::layering {
namespace {

/// The name in `#include "x"` or `#include <x>`, or nothing for any other line.
std::optional<std::string> included_name(std::string_view line) {
  line = trim(line);
  if (!line.starts_with('#') || !trim(line.substr(1)).starts_with("include")) {
    return std::nullopt;
  }
  const std::size_t open = line.find_first_of("\"<");
  if (open == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t close = line.find_first_of("\">", open + 1);
  return std::string(line.substr(open + 1, close - open - 1));
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> files_below(const std::filesystem::path& root, const char* top) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(root / top)) {
    return files;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_cpp(std::string_view name) {
  constexpr std::array<std::string_view, 5> kEndings = {".h", ".cpp", ".cu", ".cuh", ".h.in"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::vector<Word> includes_of(std::string_view text) {
  std::vector<Word> includes;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (std::optional<std::string> name = included_name(line)) {
      includes.push_back({*name, number});
    }
  }
  return includes;
}

}  // namespace trireme::layering
