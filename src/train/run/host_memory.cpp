#include "train/run/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"

namespace trireme::train {
namespace {

/// "" if it cannot be read.
std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// The number in a file; nothing if the file contains "max" or does not exist.
std::optional<std::int64_t> number_in(const std::string& path) {
  return parse_integer(trim(split(content_of(path), '\n').front()));
}

/// The number after `name` in a file of lines "NAME NUMBER …".
std::optional<std::int64_t> number_of(std::string_view name, const std::string& path) {
  const std::string content = content_of(path);
  for (const std::string_view line : split(content, '\n')) {
    const std::vector<std::string_view> words = trireme::split_words(line);
    if (words.size() >= 2 && words[0] == name) {
      return parse_integer(words[1]);
    }
  }
  return std::nullopt;
}

/// File names in one version of control groups.
struct GroupFiles {
  std::string_view folder{};
  std::string_view limit{};
  std::string_view used{};
  std::string_view droppable{};
};
constexpr GroupFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                               "memory.usage_in_bytes", "total_inactive_file"};

/// Memory left in a group; nothing if it has no limit.
std::optional<std::int64_t> left_in(const std::string& group, const GroupFiles& files) {
  const auto limit = number_in(fmt::format("{}/{}", group, files.limit));
  const auto used = number_in(fmt::format("{}/{}", group, files.used));
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::int64_t droppable = number_of(files.droppable, group + "/memory.stat").value_or(0);
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - droppable));
}

class Least {
 public:
  void consider(std::int64_t bytes, const std::string& reason) {
    if (bytes < least_.bytes.count) {
      least_ = {{bytes}, reason};
    }
  }
  [[nodiscard]] const AvailableMemory& get() const { return least_; }

 private:
  AvailableMemory least_{{std::numeric_limits<std::int64_t>::max()}, "that can be addressed"};
};

/// Considers a group and all its ancestors: each has its own limit.
void consider_groups(const std::string& root, std::string_view path, const GroupFiles& files,
                     Least& least) {
  for (std::filesystem::path group(path);; group = group.parent_path()) {
    const std::string folder = fmt::format("{}{}{}", root, files.folder, group.string());
    if (const auto left = left_in(folder, files)) {
      least.consider(*left, fmt::format("left in the control group {}", group.string()));
    }
    if (!group.has_relative_path()) {
      return;
    }
  }
}

}  // namespace

AvailableMemory available_memory(const std::string& root) {
  constexpr std::int64_t kKibi = 1024;
  Least least;
  if (const auto kibibytes = number_of("MemAvailable:", root + "/proc/meminfo")) {
    least.consider(*kibibytes * kKibi, "available on this machine");
  }
  // Lines "NUMBER:CONTROLLERS:PATH"; version 2 has the number 0 and no controllers.
  const std::string groups = content_of(root + "/proc/self/cgroup");
  for (const std::string_view line : split(groups, '\n')) {
    const std::vector<std::string_view> parts = split(line, ':');
    if (parts.size() != 3 || !parts[2].starts_with('/')) {
      continue;
    }
    if (parts[1].empty()) {
      consider_groups(root, parts[2], kVersion2, least);
    } else if (parts[1] == "memory") {
      consider_groups(root, parts[2], kVersion1, least);
    }
  }
  return least.get();
}

}  // namespace trireme::train
