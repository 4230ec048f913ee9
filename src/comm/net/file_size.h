// File size limits: growing a file past `ulimit -f` (RLIMIT_FSIZE) is an error here, not a signal that kills the
// process. Callable from any thread.
#pragma once

#include <csignal>
#include <string_view>

namespace trireme::comm {

/// While it lives, a system call by this thread that would exceed the limit fails with EFBIG and raises no SIGXFSZ,
/// however the program handles that signal.
class FileSizeGuard {
 public:
  FileSizeGuard() noexcept;
  ~FileSizeGuard();
  FileSizeGuard(const FileSizeGuard&) = delete;
  FileSizeGuard& operator=(const FileSizeGuard&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

/// Like throw_system(), but EFBIG names the limit and how to raise it.
[[noreturn]] void throw_file_system(std::string_view what, int number);

}  // namespace trireme::comm
