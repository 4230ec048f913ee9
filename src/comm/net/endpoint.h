// Endpoints: where a socket is bound or connected to, in the form of the socket API. Any thread.
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
    return reinterpret_cast<const sockaddr*>(&storage);  // what the socket API is made of
  }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

[[nodiscard]] Address to_address(const Endpoint& endpoint);

struct Resolved {
  std::vector<Endpoint> endpoints;
  std::string problem;  ///< why there are none
};
/// What the address stands for, by the system's resolver.
[[nodiscard]] Resolved resolve(const Address& address);

}  // namespace trireme::comm
