#include "command_line/files.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "base/path_error.h"

namespace trireme::cli {
namespace {

/// The errno value of writing there; 0 if it is possible.
int reason_not_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return EISDIR;
  }
  const std::string folder = fs::path(path).parent_path().string();
  const std::string place =
      fs::exists(path, ignored) ? path : (folder.empty() ? "." : folder) + "/";
  return ::access(place.c_str(), W_OK) == 0 ? 0 : errno;
}

}  // namespace

std::string writable_path(const std::string& path) {
  if (path.empty()) {
    return "expected a path";
  }
  const int reason = reason_not_writable(path);
  return reason == 0 ? "" : path_error_text("write", path, reason);
}

void write_and_report(const std::string& path, std::string_view content) {
  write_file(path, content);
  fmt::print(stderr, "trireme: wrote {}\n", path);
}

}  // namespace trireme::cli
