// HTTP POST over TCP or TLS: as much of HTTP as etcd's JSON gateway needs. Callable from any thread.
#pragma once

#include <string>

#include "comm/net/address.h"
#include "comm/net/deadline.h"
#include "comm/net/tls_client.h"

namespace trireme::ps {

struct HttpRequest {
  comm::Address server{};
  std::string path{};
  std::string json{};
  const comm::TlsTrust* tls = nullptr;  ///< nothing: not encrypted
};

struct HttpResponse {
  int status = 0;
  std::string body{};
};

/// Speaks HTTP/1.0: the server closes the connection after its answer, so there are neither chunks to decode nor
/// connections to keep. Throws Error(System) with the reason if no answer arrives by the deadline or if it is not HTTP.
/// Throws TlsFailure as TlsClient does. A host name takes the time of the system's resolver, which the deadline does not
/// shorten.
[[nodiscard]] HttpResponse http_post(const HttpRequest& request, comm::Deadline deadline);

}  // namespace trireme::ps
