// File size limits: growing a file past `ulimit -f` (RLIMIT_FSIZE) is an error here, not the signal
// that ends the process. Any thread.
#pragma once

#include <csignal>
#include <string_view>

namespace trireme::comm {

/// While it lives, a call of this thread that would make a file too large fails with EFBIG and raises
/// no SIGXFSZ, whatever the program does with that signal.
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

/// As throw_system(), but EFBIG names the limit and how to raise it.
[[noreturn]] void throw_file_system(std::string_view what, int number);

}  // namespace trireme::comm
