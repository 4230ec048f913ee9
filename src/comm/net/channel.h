// Channel: a connection on which each side has proved that it knows the job's secret, encrypted or not. Never blocks,
// so it works in an event loop; blocking helpers are below. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sys/uio.h>

#include "comm/net/handshake.h"
#include "comm/net/socket.h"
#include "comm/net/tls.h"
#include "trireme/error.h"

namespace trireme::comm {

/// The other side belongs to the job, but is configured differently. Retrying does not help.
class Disagreement : public Error {
 public:
  explicit Disagreement(const std::string& what) : Error(ErrorKind::Peer, what) {}
};

/// The other side closed the connection during the handshake. It may have run out of descriptors; a retry may succeed.
class ClosedInHandshake : public Error {
 public:
  explicit ClosedInHandshake(const std::string& what) : Error(ErrorKind::Peer, what) {}
};

class Channel {
 public:
  /// On a connected socket. `options.peer` may be empty: it is then queried from the socket.
  Channel(Fd socket, HandshakeOptions options);
  /// Tells the other side that no more follows, without waiting.
  ~Channel();
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Continues the handshake as far as possible without waiting; true once it is done. Throws Error(Peer) with the
  /// reason if either side refuses, Disagreement if only one of the two encrypts, ClosedInHandshake if the other
  /// closes; a refusal has then been sent and the socket is closed. Never reads more than 122 bytes.
  [[nodiscard]] bool advance();
  [[nodiscard]] bool is_open() const noexcept { return !handshake_; }

  /// Each requires is_open(). After a write that has to wait, the next one must start with the same bytes (there may be
  /// more of them).
  [[nodiscard]] Transfer read(std::span<std::byte> into);
  /// Like read() into the pieces in order, in one system call; if encrypted, into the first one.
  [[nodiscard]] Transfer read_pieces(std::span<iovec> pieces);
  [[nodiscard]] Transfer write(std::span<const std::byte> data);
  /// Like write() of the pieces in order, in one system call unless encrypted.
  [[nodiscard]] Transfer write_pieces(std::span<iovec> pieces);

  /// Whether the last call waits for the socket to become writable. Always wait for it to become readable.
  [[nodiscard]] bool wants_write() const noexcept;

  /// Whether received bytes are buffered here, where polling the socket does not show them: read() them first.
  [[nodiscard]] bool has_buffered() const noexcept { return tls_ && tls_->has_buffered(); }

  /// Closes the connection such that the last bytes written still arrive, if that needs no waiting. Unlike the
  /// destructor, also closes it for a forked process that inherited it.
  void close() noexcept;

  [[nodiscard]] const Fd& socket() const noexcept { return socket_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// Takes the socket out of an open channel without TLS, for callers that read and write it directly.
  [[nodiscard]] Fd release() &&;

 private:
  [[nodiscard]] bool flush_handshake();
  void finish_handshake();

  Fd socket_;
  std::string peer_;
  std::unique_ptr<Handshake> handshake_;  ///< until it is done
  std::unique_ptr<Tls> tls_;
  bool reader_waits_to_write_ = false;
  bool writer_waits_to_write_ = false;
};

/// Waits until the handshake is done. Throws Error(Peer) at the deadline, or as advance() does.
void open(Channel& channel, Deadline deadline);
/// Connects and opens; retries if the server closes during the handshake, as one that runs out of descriptors does.
/// Throws as connect_to() and advance(), or Error(Peer) at the deadline.
[[nodiscard]] Channel connect_channel(const Address& address, const HandshakeOptions& options,
                                      Deadline deadline);
/// Waits until all is sent. Throws Error(System) at the deadline or if the other side has closed.
void send_all(Channel& channel, std::span<const std::byte> data, Deadline deadline);
/// Waits until at least a byte has arrived; returns how many, 0 at the deadline. Throws Error(System) if the other side
/// has closed.
[[nodiscard]] std::size_t receive_some(Channel& channel, std::span<std::byte> into,
                                       Deadline deadline);

}  // namespace trireme::comm
