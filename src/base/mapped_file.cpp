#include "base/mapped_file.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "base/path_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The file's size; -1 and errno if it cannot be determined.
off_t size_of_regular(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return -1;
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    throw Error(ErrorKind::Input, fmt::format("cannot read '{}': it is not a regular file", path));
  }
  return status.st_size;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw_read_error(path, errno);
  }
  const off_t size = size_of_regular(fd, path);
  void* data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  const int reason = size < 0 || data == MAP_FAILED ? errno : 0;
  if (reason != 0) {
    ::close(fd);
    throw_read_error(path, reason);
  }
  fd_ = fd;
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): munmap takes no const.
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  ::close(fd_);
}

void MappedFile::copy(std::span<const std::byte> from, std::byte* to) const {
  std::size_t at = from.data() - data_;
  const std::size_t end = at + from.size();
  while (at < end) {
    const ssize_t read = ::pread(fd_, to, end - at, static_cast<off_t>(at));
    if (read < 0 && errno != EINTR) {
      throw_read_error(path_, errno);
    }
    if (read == 0) {
      struct stat status {};
      (void)::fstat(fd_, &status);
      throw Error(ErrorKind::Input,
                  fmt::format("'{}' was truncated while in use: it had {} bytes and has {} now",
                              path_, size_, status.st_size));
    }
    at += bytes_moved(read);
    to += bytes_moved(read);
  }
}

}  // namespace trireme
