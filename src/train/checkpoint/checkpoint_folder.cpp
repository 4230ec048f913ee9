#include "train/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/path_error.h"
#include "base/text.h"

namespace trireme::train {
namespace {

constexpr std::string_view kPrefix = "step-";

std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> step = parse_integer(name.substr(kPrefix.size()));
  return step && *step >= 0 && step_name(*step) == name ? step : std::nullopt;
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:06}", kPrefix, step);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_read_error(folder, error.value());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<SavedStep> list_steps(const std::string& folder) {
  std::vector<SavedStep> steps;
  const std::vector<std::string> names = names_in(folder);
  for (const std::string& name : names) {
    std::string_view whole = name;
    if (whole.ends_with(kReplaced)) {
      whole.remove_suffix(kReplaced.size());
      if (std::ranges::binary_search(names, whole)) {
        continue;
      }
    }
    if (const std::optional<std::int64_t> step = step_in(whole)) {
      steps.push_back({.step = *step, .name = name});
    }
  }
  std::ranges::sort(steps, std::greater<>(), &SavedStep::step);
  return steps;
}

}  // namespace trireme::train
