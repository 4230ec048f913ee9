#include "backend/cuda/algorithm_file.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/error.h"
#include "trireme/files.h"

namespace trireme::cuda {
namespace {

/// "KEY = 0123… 4567…"
std::string line_of(const std::string& key, const AlgorithmBits& bits) {
  return fmt::format("{} = {:016x}\n", key, fmt::join(bits, " "));
}

std::optional<std::pair<std::string, AlgorithmBits>> parse(const std::string& line) {
  const std::size_t at = line.rfind(" = ");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream words(line.substr(at + 3));
  AlgorithmBits bits{};
  for (std::uint64_t& word : bits) {
    words >> std::hex >> word;
  }
  return words ? std::optional(std::pair(line.substr(0, at), bits)) : std::nullopt;
}

}  // namespace

AlgorithmFile::AlgorithmFile(std::string path) : path_(std::move(path)) {
  MutexLock lock(mutex_);
  read();
}

void AlgorithmFile::read() {
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored)) {
    return;
  }
  try {
    std::istringstream lines(read_file(path_));
    for (std::string line; std::getline(lines, line);) {
      if (auto found = parse(line)) {
        known_.insert(std::move(*found));
      }
    }
  } catch (const Error&) {
    return;
  }
}

std::optional<AlgorithmBits> AlgorithmFile::find(std::string_view key) {
  MutexLock lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void AlgorithmFile::add(const std::string& key, const AlgorithmBits& bits) {
  MutexLock lock(mutex_);
  known_[key] = bits;
  if (path_.empty()) {
    return;
  }
  read();
  std::string content;
  for (const auto& [name, known] : known_) {
    content += line_of(name, known);
  }
  try {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    write_file(path_, content);
  } catch (const Error&) {
    return;
  }
}

}  // namespace trireme::cuda
