// Address: the host and port of a server, in their usual notation. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::comm {

/// Where a server listens.
struct Address {
  std::string host = "127.0.0.1";  ///< a name, or an IPv4 or IPv6 literal without brackets
  std::uint16_t port = 0;          ///< 0 only when listening: any free port
  friend bool operator==(const Address&, const Address&) = default;
};

/// Parses "host:port", "10.0.0.1:4000" or "[::1]:4000"; the port is 1 to 65535. Throws
/// Error(Usage).
[[nodiscard]] Address parse_address(std::string_view text);
/// "node1:4000", "[::1]:4000".
[[nodiscard]] std::string to_text(const Address& address);

}  // namespace trireme::comm
