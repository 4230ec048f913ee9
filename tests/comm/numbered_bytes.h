// Bytes that differ from their neighbors, and from those a multiple of 256 away.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::comm {

inline std::vector<std::byte> numbered_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return bytes;
}

}  // namespace trireme::comm
