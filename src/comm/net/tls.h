// TLS 1.3 over a connected socket, keyed with a pre-shared key and nothing else: no certificates.
// Part of channel.h. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "comm/net/handshake.h"
#include "comm/net/socket.h"

namespace trireme::comm {

/// The encrypted side of a socket. The negotiation is done by the first reads and writes.
class Tls {
 public:
  /// One key of AES-GCM is good for 2^24.5 records (RFC 8446, 5.5); a record has at most 16 KiB.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;

  /// Does not own the socket, which must outlive it. Goes on to a new key after writing so many
  /// records. Throws Error(System) if OpenSSL has no TLS 1.3.
  Tls(const Fd& socket, Side side, const Digest& key,
      std::uint64_t records_per_key = kRecordsPerKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // As receive_some and send_some. After a write that has to wait, the next write begins with the
  // same bytes. Throw Error(Peer) if what arrives is not TLS with this key.
  [[nodiscard]] Transfer read(std::span<std::byte> into);
  [[nodiscard]] Transfer write(std::span<const std::byte> data);
  /// Whether bytes have arrived that were not read: the system does not know of them any more.
  [[nodiscard]] bool has_buffered() const noexcept;
  /// Tells the other side that no more follows, if that is possible at once.
  void close() noexcept;

 private:
  struct State;
  [[nodiscard]] Transfer encrypt(std::span<const std::byte> data);
  [[nodiscard]] Transfer failed(int result, std::string_view what);
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
