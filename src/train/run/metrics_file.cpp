#include "train/run/metrics_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/json.h"
#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

/// The step of a line; -1 if it is not one.
std::int64_t step_of(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    const Json* step = json.find("step");
    return step != nullptr && step->is_number_integer() ? step->get<std::int64_t>() : -1;
  } catch (const Error&) {
    return -1;
  }
}

/// The bytes of the lines up to a step. Stops at the first line that is later, incomplete or out of order.
std::int64_t bytes_until(const std::string& path, std::int64_t last) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t bytes = 0;
  std::int64_t before = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const std::int64_t step = step_of(line);
    if (step <= before || step > last) {
      break;
    }
    before = step;
    bytes += static_cast<std::int64_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, std::int64_t step) : path_(std::move(path)) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (fd_ < 0) {
    throw_write_error(path_, errno);
  }
  size_ = bytes_until(path_, step);
  if (::ftruncate(fd_, size_) != 0) {
    const int reason = errno;
    ::close(fd_);
    throw_write_error(path_, reason);
  }
}

MetricsFile::~MetricsFile() {
  ::close(fd_);
}

void MetricsFile::add(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) {
      const int reason = errno;
      (void)!::ftruncate(fd_, size_);  // if that fails, the next resume removes the rest
      throw_write_error(path_, reason);
    }
    rest.remove_prefix(bytes_moved(written));
  }
  size_ += static_cast<std::int64_t>(text.size());
}

void MetricsFile::sync() {
  if (::fdatasync(fd_) != 0 && errno != EINVAL) {
    throw_write_error(path_, errno);
  }
}

}  // namespace trireme::train
