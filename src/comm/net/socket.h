// TCP sockets: one throwing wrapper per system call. All sockets are non-blocking, close on exec and
// send without delay or SIGPIPE. Functions may be called from any thread; a socket is used by one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sys/uio.h>

#include "comm/net/address.h"
#include "comm/net/deadline.h"
#include "comm/net/fd.h"
#include "trireme/error.h"

namespace trireme::comm {

/// A listening socket. `address` has the actual port.
struct Listener {
  Fd socket;
  Address address;
};

/// Another socket is listening at the address.
class AddressInUse : public Error {
 public:
  explicit AddressInUse(const std::string& what) : Error(ErrorKind::System, what) {}
};

/// Listens on the first address that the host name resolves to. A recently used port can be reused; one in use throws
/// AddressInUse. Throws Error(System).
[[nodiscard]] Listener listen_on(const Address& address = {});

/// Connects; retries until the deadline while nothing is listening there or the name is unknown, as with a server that
/// is not up yet. Makes at least one attempt. Name lookups use the system's resolver, whose own timeout the deadline
/// does not shorten. Throws Error(System) with the last reason.
[[nodiscard]] Fd connect_to(const Address& address, Deadline deadline);

/// Starts to connect without waiting: the socket becomes writable when it is connected or has failed, which shows when it
/// is used. Nothing if the first step fails. A name takes the time of the system's resolver.
[[nodiscard]] std::optional<Fd> start_connecting(const Address& address);

/// Waits for a connection. Throws Error(System) if none arrived in time.
[[nodiscard]] Fd accept_one(const Fd& listener, Deadline deadline);
/// A pending connection, or nothing. Throws Error(System), also if descriptors run out.
[[nodiscard]] std::optional<Fd> accept_now(const Fd& listener);

/// The other end as "127.0.0.1:51234", or "an unknown peer" once the connection is closed.
[[nodiscard]] std::string peer_of(const Fd& socket);

/// Waits until the socket can be read from (or written to, or is closed); false at the deadline.
enum class Ready : std::uint8_t { Read, Write };
[[nodiscard]] bool wait_for(const Fd& socket, Ready what, Deadline deadline);

/// Outcome of one non-blocking attempt.
struct Transfer {
  enum class Outcome : std::uint8_t {
    Moved,      ///< `bytes` of them, at least 1 (or 0 if 0 were requested)
    WaitRead,   ///< try again when the socket can be read from
    WaitWrite,  ///< try again when the socket can be written to
    Closed,     ///< the other side has closed, orderly or not
  };
  Outcome outcome = Outcome::Moved;
  std::size_t bytes = 0;
};
/// Throws Error(System) only if the socket itself is unusable.
[[nodiscard]] Transfer send_some(const Fd& socket, std::span<const std::byte> data);
[[nodiscard]] Transfer send_pieces(const Fd& socket, std::span<iovec> pieces);
[[nodiscard]] Transfer receive_some(const Fd& socket, std::span<std::byte> into);
/// Fills the pieces in order.
[[nodiscard]] Transfer receive_pieces(const Fd& socket, std::span<iovec> pieces);

/// Moves all the bytes, or throws Error(System) saying how many were moved when the deadline passed or the other side
/// closed.
void send_all(const Fd& socket, std::span<const std::byte> data, Deadline deadline);
void receive_all(const Fd& socket, std::span<std::byte> into, Deadline deadline);

/// Closes such that the last bytes sent still arrive: unread received bytes would make the kernel send a reset that
/// overtakes them. Does not block; discards at most 64 KiB.
void close_politely(Fd& socket) noexcept;

}  // namespace trireme::comm
