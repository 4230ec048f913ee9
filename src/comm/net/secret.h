// The secret of a job: who has it belongs to the job. Also the two pieces of cryptography that the
// handshake is made of. Any thread; an object like any value.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace trireme::comm {

using Digest = std::array<std::byte, 32>;

/// 32 bytes that are overwritten when the object ends. Never part of a message.
class Secret {
 public:
  /// From the system's random numbers. Throws Error(System) if there are none.
  [[nodiscard]] static Secret random();
  /// From 64 hexadecimal digits, as hex() gives. Throws Error(Usage), which does not repeat them.
  [[nodiscard]] static Secret from_hex(std::string_view hex);
  /// From a sentence that people agreed on; at least 16 bytes, since who listens to the network can
  /// try short ones at leisure. The same text gives the same secret. Throws Error(Usage).
  [[nodiscard]] static Secret from_text(std::string_view text);

  ~Secret();
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

  /// The caller looks after the text: it does not wipe itself.
  [[nodiscard]] std::string hex() const;
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Secret() = default;
  Digest bytes_{};
};

/// HMAC-SHA-256 of the parts one after the other. Each part's length must follow from what is
/// known, so that no two lists of parts give the same bytes.
[[nodiscard]] Digest hmac_sha256(std::span<const std::byte> key,
                                 std::initializer_list<std::span<const std::byte>> parts);

/// Whether two digests are equal, in a time that does not depend on where they differ.
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
