#include "base/mapped_file.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes_moved.h"
#include "trireme/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail_to_read(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::System, fmt::format("cannot read '{}': {}", path, why));
}

/// The file's size; -1 and errno if it cannot be determined.
off_t size_of_regular(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return -1;
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    fail_to_read(path, "it is not a regular file");
  }
  return status.st_size;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto why = [] { return std::generic_category().message(errno); };
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    fail_to_read(path, why());
  }
  const off_t size = size_of_regular(fd, path);
  void* data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  const std::string problem = size < 0 || data == MAP_FAILED ? why() : "";
  if (!problem.empty()) {
    ::close(fd);
    fail_to_read(path, problem);
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
      fail_to_read(path_, std::generic_category().message(errno));
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
