#include "cli/files.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/error.h"

namespace trireme::cli {
namespace {

[[noreturn]] void fail(std::string_view action, const std::string& path) {
  const int reason = errno;
  throw Error(ErrorKind::System, fmt::format("cannot {} '{}': {}", action, path,
                                             std::generic_category().message(reason)));
}

/// Writes to one name; a complaint is about the other, which the user knows.
void write_into(const std::string& file_name, const std::string& said, std::string_view content) {
  errno = 0;
  std::ofstream file(file_name, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) {
    fail("write", said);
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
    fail("read", path);
  }
  return std::move(text).str();
}

void write_file(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const std::filesystem::file_status target = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(target) && !std::filesystem::is_regular_file(target)) {
    write_into(path, path, content);  // a device or a pipe: there is nothing to replace
    return;
  }
  // Where the path is a link, the file behind it is replaced and the link stays.
  const std::string real = std::filesystem::weakly_canonical(path, ignored).string();
  const std::string& place = real.empty() ? path : real;
  const std::string temporary = fmt::format("{}.{}.tmp", place, getpid());
  try {
    write_into(temporary, path, content);
    if (std::rename(temporary.c_str(), place.c_str()) != 0) {
      fail("write", path);
    }
  } catch (const Error&) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

void write_and_say(const std::string& path, std::string_view content) {
  write_file(path, content);
  fmt::print(stderr, "trireme: wrote {}\n", path);
}

}  // namespace trireme::cli
