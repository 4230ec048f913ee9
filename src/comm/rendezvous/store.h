// Store: a small key-value table that all ranks of a job see, through which they find one another. Each implementation
// states which threads may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/net/deadline.h"

namespace trireme::comm {

/// Keys are 1 to 1024 bytes, values at most 16 MiB, of any bytes.
inline constexpr std::size_t kLongestKey = 1024;
inline constexpr std::size_t kLongestValue = std::size_t{16} << 20;

class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Sets the key's value, and wakes callers that wait for the key. Throws Error(Usage) if key or value is too long.
  virtual void set(const std::string& key, std::string value) = 0;

  /// Sets the key only if it has no value yet, atomically. Returns the value that the key has afterwards: `value` if
  /// this call set it (or another caller set the same value), else the earlier one. Throws as set() does.
  virtual std::string insert(const std::string& key, std::string value) = 0;

  /// The key's value; waits until there is one. Throws Error(Peer) at the deadline.
  [[nodiscard]] virtual std::string get(const std::string& key, Deadline deadline) = 0;

  /// Adds to the key's value, a decimal number, and returns the sum; a key without a value counts as 0. Atomic:
  /// add("ticket", 1) gives each caller its own number. Throws Error(Usage) if the value is not a number or the sum
  /// does not fit in 64 bits.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

 protected:
  Store() = default;
};

}  // namespace trireme::comm
