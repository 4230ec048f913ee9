// 64-bit XXH3: detects accidental corruption, not tampering. A Checksum belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trireme::train {

/// An incremental checksum.
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
