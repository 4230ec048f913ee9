// File descriptors that close themselves, and the text of system errors. An Fd belongs to one
// thread at a time; the functions may be called from any.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace trireme::comm {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// "Connection refused" for ECONNREFUSED.
[[nodiscard]] std::string error_text(int number);

/// Throws Error(System) "WHAT: Connection refused".
[[noreturn]] void throw_system(std::string_view what, int number);

}  // namespace trireme::comm
