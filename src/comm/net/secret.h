// The secret of a job: a process that has it belongs to the job. Also the two cryptographic
// primitives of the handshake. Any thread; an object like any value.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace trireme::comm {

using Digest = std::array<std::byte, 32>;

/// 32 bytes that are wiped on destruction. Never part of a message.
class Secret {
 public:
  /// From the system's random number generator. Throws Error(System) if it fails.
  [[nodiscard]] static Secret random();
  /// From 64 hexadecimal digits, as hex() returns. Throws Error(Usage), which does not repeat them.
  [[nodiscard]] static Secret from_hex(std::string_view hex);
  /// From a passphrase; at least 16 bytes, because an eavesdropper can brute-force short ones
  /// offline. The same text gives the same secret. Throws Error(Usage).
  [[nodiscard]] static Secret from_text(std::string_view text);

  ~Secret();
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

  /// The caller must wipe the text.
  [[nodiscard]] std::string hex() const;
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Secret() = default;
  Digest bytes_{};
};

/// HMAC-SHA-256 of the concatenated parts. The length of each part must be known from context, so
/// that no two lists of parts give the same bytes.
[[nodiscard]] Digest hmac_sha256(std::span<const std::byte> key,
                                 std::initializer_list<std::span<const std::byte>> parts);

/// Whether two digests are equal, in constant time.
[[nodiscard]] bool same(const Digest& a, const Digest& b);

/// Overwrites with random bytes from the system. Throws Error(System).
void fill_random(std::span<std::byte> into);

/// "0a1b…", lower case.
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

/// The bytes of a text.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace trireme::comm
