// Stream: an ordered, bidirectional byte stream between this rank and one peer. Never waits.
//
// One thread at a time (the mailbox ensures that).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "trireme/error.h"

namespace trireme::comm {

/// The peer has closed the stream, and everything it sent was read.
class Closed : public Error {
 public:
  explicit Closed(const std::string& why) : Error(ErrorKind::Peer, why) {}
};

class Stream {
 public:
  Stream() = default;
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Writes as much of `head`, then of `body`, as fits; returns the number of bytes. The next call must continue with
  /// the rest, up to the same end. Throws Error(Peer) if the peer has exited.
  [[nodiscard]] virtual std::size_t write(std::span<const std::byte> head,
                                          std::span<const std::byte> body) = 0;
  /// Fills `into` with received data; returns the number of bytes. Throws Closed, or Error(Peer) if the data is
  /// invalid.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> into) = 0;
  /// False if input is known to be pending.
  [[nodiscard]] virtual bool is_drained() const { return true; }
};

}  // namespace trireme::comm
