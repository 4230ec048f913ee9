// Ctrl-C as something to be asked about, by this process and those that it forks. One thread sets it up.
#pragma once

#include <atomic>
#include <csignal>

namespace trireme::cli {

/// A number that a process and those forked from it have together; 0 at first.
class SharedNumber {
 public:
  /// Throws Error(System) if there is no memory for it.
  SharedNumber();
  ~SharedNumber();
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  void set(int value) noexcept { value_->store(value); }
  [[nodiscard]] int get() const noexcept { return value_->load(); }

 private:
  std::atomic<int>* value_;  ///< in a page of its own
};

/// While it lives, Ctrl-C only sets `flag` to 1; pressed again it ends the program as usual. Forked processes inherit
/// it: one that is asked to stop asks all. One at a time, or inside of another with the same flag, which must live
/// as long.
class InterruptGuard {
 public:
  explicit InterruptGuard(SharedNumber& flag);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace trireme::cli
