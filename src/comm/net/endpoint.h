// Endpoints: the addresses of sockets, as the socket API represents them. Callable from any thread.
#pragma once

#include <string>
#include <vector>

#include <sys/socket.h>

#include "comm/net/address.h"

namespace trireme::comm {

/// A socket address of either family.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);

  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);  // required by the socket API
  }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

[[nodiscard]] Address to_address(const Endpoint& endpoint);

struct Resolved {
  std::vector<Endpoint> endpoints;
  std::string problem;  ///< why there is none
};
/// The endpoints that the system's resolver returns for the address.
[[nodiscard]] Resolved resolve(const Address& address);

}  // namespace trireme::comm
