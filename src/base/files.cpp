#include "trireme/files.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/disk.h"
#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

void write_into(const std::string& path, std::string_view content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) {
    throw_write_error(path, errno);
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) {
    text << file.rdbuf();
  }
  if (!file.is_open() || file.bad() || errno != 0) {
    throw_read_error(path, errno);
  }
  return std::move(text).str();
}

void write_file(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const std::filesystem::file_status target = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(target) && !std::filesystem::is_regular_file(target)) {
    write_into(path, content);  // a device or a pipe: there is nothing to replace
    return;
  }
  // If the path is a link, replaces its target and keeps the link.
  const std::string real = std::filesystem::weakly_canonical(path, ignored).string();
  const std::string& place = real.empty() ? path : real;
  replace_file(place, content);
}

}  // namespace trireme
