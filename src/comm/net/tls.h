// TLS 1.3 over a connected socket, keyed with a pre-shared key only: no certificates. Part of
// channel.h. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "comm/net/handshake.h"
#include "comm/net/socket.h"

namespace trireme::comm {

/// The encrypted side of a socket. The first reads and writes perform the negotiation.
class Tls {
 public:
  /// One key of AES-GCM is good for 2^24.5 records (RFC 8446, 5.5); a record has at most 16 KiB.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;

  /// Does not own the socket, which must outlive it. Rotates the key after writing this many
  /// records. Throws Error(System) if OpenSSL has no TLS 1.3.
  Tls(const Fd& socket, Side side, const Digest& key,
      std::uint64_t records_per_key = kRecordsPerKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // Like receive_some and send_some. After a write that has to wait, the next write must start with
  // the same bytes. Throw Error(Peer) if the received data is not TLS with this key.
  [[nodiscard]] Transfer read(std::span<std::byte> into);
  [[nodiscard]] Transfer write(std::span<const std::byte> data);
  /// Whether received bytes are buffered here, where polling the socket does not show them.
  [[nodiscard]] bool has_buffered() const noexcept;
  /// Tells the other side that no more follows, if that is possible without waiting.
  void close() noexcept;

 private:
  struct State;
  [[nodiscard]] Transfer encrypt(std::span<const std::byte> data);
  [[nodiscard]] Transfer failed(int result, std::string_view what);
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
