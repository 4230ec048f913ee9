// XXH3 of 64 bits: a checksum against accidents, not against intent. A Checksum belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trireme::train {

/// The checksum of bytes that come piece by piece.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  std::unique_ptr<void, void (*)(void*)> state_;
};

[[nodiscard]] std::uint64_t checksum_of(std::span<const std::byte> bytes);

/// 16 hexadecimal digits.
[[nodiscard]] std::string checksum_text(std::uint64_t checksum);

}  // namespace trireme::train
