#include "base/disk.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Longer writes are split, so that tests can crash in the middle of one.
constexpr std::size_t kMaxPerWrite = std::size_t{1} << 20;

[[noreturn]] void fail(std::string_view action, const std::string& path, int reason) {
  throw Error(ErrorKind::System, path_error_text(action, path, reason));
}

int sync_and_close(int fd) {
  const int reason = ::fsync(fd) == 0 ? 0 : errno;
  return ::close(fd) == 0 || reason != 0 ? reason : errno;
}

}  // namespace

void Disk::announce(std::string_view change, const std::string& path) const {
  if (before_change_) {
    before_change_(change, path);
  }
}

void Disk::make_folder(const std::string& path) const {
  announce("make folder", path);
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    fail("create the folder", path, errno);
  }
}

void Disk::rename(const std::string& from, const std::string& to) const {
  announce("rename", from);
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    fail(fmt::format("rename '{}' to", from), to, reason);
  }
}

void Disk::remove(const std::string& path) const {
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) {
    return;
  }
  if (type == std::filesystem::file_type::directory) {
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      remove(entry.path().string());
    }
  }
  announce("remove", path);
  if (!error) {
    std::filesystem::remove(path, error);
  }
  if (error) {
    fail("remove", path, error.value());
  }
}

void Disk::sync_folder(const std::string& path) const {
  announce("sync folder", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail("open the folder", path, errno);
  }
  // Some network file systems persist names anyway, and report that they cannot sync.
  const int reason = sync_and_close(fd);
  if (reason != 0 && reason != EINVAL) {
    fail("sync the folder", path, reason);
  }
}

OutputFile::OutputFile(std::string path, const Disk& disk, std::string name)
    : path_(std::move(path)), name_(name.empty() ? path_ : std::move(name)), disk_(disk) {
  disk_.announce("create", path_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0) {
    fail("write", name_, errno);
  }
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    disk_.announce("write", path_);
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxPerWrite));
    if (written < 0 && errno != EINTR) {
      fail("write", name_, errno);
    }
    bytes = bytes.subspan(bytes_moved(written));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::finish() {
  disk_.announce("sync", path_);
  const int reason = sync_and_close(std::exchange(fd_, -1));
  if (reason != 0) {
    fail("write", name_, reason);
  }
}

AtomicFile::AtomicFile(std::string path, const Disk& disk)
    : path_(std::move(path)),
      temporary_(fmt::format("{}.{}.tmp", path_, ::getpid())),
      disk_(disk),
      file_(temporary_, disk, path_) {}

AtomicFile::~AtomicFile() {
  if (!renamed_) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::commit() {
  file_.finish();
  disk_.rename(temporary_, path_);
  renamed_ = true;
  disk_.sync_folder(folder_of(path_));
}

void replace_file(const std::string& path, std::string_view content, const Disk& disk) {
  AtomicFile file(path, disk);
  file.write(content);
  file.commit();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace trireme
