#include "comm/net/endpoint.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "comm/net/fd.h"

namespace trireme::comm {

Address to_address(const Endpoint& endpoint) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (endpoint.storage.ss_family == AF_INET6) {
    const auto* ip = reinterpret_cast<const sockaddr_in6*>(&endpoint.storage);
    inet_ntop(AF_INET6, &ip->sin6_addr, text.data(), text.size());
    return {.host = text.data(), .port = ntohs(ip->sin6_port)};
  }
  const auto* ip = reinterpret_cast<const sockaddr_in*>(&endpoint.storage);
  inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
  return {.host = text.data(), .port = ntohs(ip->sin_port)};
}

Resolved resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (failed != 0) {
    return {.endpoints = {},
            .problem = failed == EAI_SYSTEM ? error_text(errno) : gai_strerror(failed)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  Resolved resolved;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Endpoint& endpoint = resolved.endpoints.emplace_back();
    std::memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    endpoint.length = at->ai_addrlen;
  }
  return resolved;
}

}  // namespace trireme::comm
