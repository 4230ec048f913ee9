#include "base/path_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace trireme {
namespace {

/// Reasons that another path, or other permissions, would fix.
constexpr std::array kPathReasons{ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG};

}  // namespace

std::string path_error_text(std::string_view action, const std::string& path, int reason) {
  return fmt::format("cannot {} '{}': {}", action, path, std::generic_category().message(reason));
}

ErrorKind kind_of_path_error(int reason) {
  const bool is_path = std::ranges::find(kPathReasons, reason) != kPathReasons.end();
  return is_path ? ErrorKind::Input : ErrorKind::System;
}

void throw_read_error(const std::string& path, int reason) {
  throw Error(kind_of_path_error(reason), path_error_text("read", path, reason));
}

void throw_write_error(const std::string& path, int reason) {
  throw Error(ErrorKind::System, path_error_text("write", path, reason));
}

}  // namespace trireme
