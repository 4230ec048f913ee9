// What a system call that moves bytes (read, write, send, …) has moved.
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace trireme {

/// The bytes of such a call's result; 0 if it failed.
[[nodiscard]] constexpr std::size_t bytes_moved(ssize_t result) {
  return result > 0 ? static_cast<std::size_t>(result) : 0;
}

}  // namespace trireme
