#include "train/run/run_lock.h"

#include <array>
#include <cerrno>
#include <climits>
#include <ctime>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

/// "process 4711 on node7, since 2026-05-01 12:00:00"
std::string owner_text() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host.front() = '?';
  }
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S}", ::getpid(), host.data(),
                     fmt::localtime(std::time(nullptr)));
}

std::string read_owner(int fd) {
  std::array<char, 400> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  const std::string owner(text.data(), bytes_moved(size));
  return owner.empty() ? "another process" : owner.substr(0, owner.find('\n'));
}

void write_owner(int fd, const std::string& path) {
  const std::string text = owner_text() + "\n";
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw_write_error(path, errno != 0 ? errno : ENOSPC);
  }
}

}  // namespace

RunLock::RunLock(const std::string& folder) {
  const std::string path = folder + "/lock";
  constexpr mode_t kMode = 0666;
  errno = 0;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (fd < 0) {
    throw_write_error(path, errno);
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string owner = read_owner(fd);
    ::close(fd);
    throw Error(ErrorKind::Usage,
                fmt::format("'{}' is in use by {}; wait until that run has ended, "
                            "or stop it",
                            folder, owner));
  }
  fd_ = fd;
  try {
    write_owner(fd_, path);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

RunLock::~RunLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

}  // namespace trireme::train
