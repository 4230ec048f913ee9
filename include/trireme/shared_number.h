// A number that forked processes share. Any thread, and signal handlers.
#pragma once

#include <atomic>

namespace trireme {

/// Shared by a process and those forked from it; 0 at first.
class SharedNumber {
 public:
  /// Throws Error(System) if there is no memory for it.
  SharedNumber();
  ~SharedNumber();
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  void set(int value) noexcept { value_->store(value); }
  /// Sets it if it is still 0. Returns whether it was.
  bool set_first(int value) noexcept {
    int zero = 0;
    return value_->compare_exchange_strong(zero, value);
  }
  [[nodiscard]] int get() const noexcept { return value_->load(); }

 private:
  std::atomic<int>* value_;  ///< in a page of its own
};

}  // namespace trireme
