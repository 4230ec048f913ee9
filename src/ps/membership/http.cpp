#include "ps/membership/http.h"

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "comm/net/socket.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kMaxResponse = std::size_t{64} << 20;

comm::Fd connect(const comm::Address& server, comm::Deadline deadline) {
  std::optional<comm::Fd> socket = comm::start_connecting(server);
  if (!socket) {
    throw Error(ErrorKind::System, "cannot connect");
  }
  if (!comm::wait_for(*socket, comm::Ready::Write, deadline)) {
    throw Error(ErrorKind::System, "no connection in time");
  }
  return std::move(*socket);
}

/// At least a byte; 0 once the other side has closed.
std::size_t receive_plain(const comm::Fd& socket, std::span<std::byte> into,
                          comm::Deadline deadline) {
  for (;;) {
    const comm::Transfer transfer = comm::receive_some(socket, into);
    if (transfer.outcome == comm::Transfer::Outcome::Closed || transfer.bytes > 0) {
      return transfer.bytes;
    }
    if (!comm::wait_for(socket, comm::Ready::Read, deadline)) {
      throw Error(ErrorKind::System, "no answer in time");
    }
  }
}

/// Until `receive(into)` returns 0.
template <class Receive>
std::string receive_rest(const Receive& receive) {
  std::string text;
  std::array<std::byte, 16384> bytes{};
  while (const std::size_t count = receive(std::span(bytes))) {
    text.append(reinterpret_cast<const char*>(bytes.data()), count);
    if (text.size() > kMaxResponse) {
      throw Error(ErrorKind::System, "the response is too long");
    }
  }
  return text;
}

/// "HTTP/1.0 200 OK", headers, an empty line, the body.
HttpResponse parse_response(std::string_view text) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = text.find(kEnd);
  const std::vector<std::string_view> words = split_words(text.substr(0, text.find("\r\n")));
  const bool is_http = words.size() >= 2 && words[0].starts_with("HTTP/1.");
  const std::optional<std::int64_t> status = is_http ? parse_integer(words[1]) : std::nullopt;
  if (end == std::string_view::npos || !status) {
    throw Error(ErrorKind::System, text.empty() ? "closed the connection without an answer: if it "
                                                  "encrypts, write etcd+tls://"
                                                : "the answer is not HTTP");
  }
  return {static_cast<int>(*status), std::string(text.substr(end + kEnd.size()))};
}

}  // namespace

HttpResponse http_post(const HttpRequest& request, comm::Deadline deadline) {
  const comm::Fd socket = connect(request.server, deadline);
  const std::string text = fmt::format(
      "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      request.path, comm::to_text(request.server), request.json.size(), request.json);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  if (request.tls != nullptr) {
    comm::TlsClient tls(*request.tls, socket, request.server.host, deadline);
    tls.send_all(bytes);
    return parse_response(
        receive_rest([&](std::span<std::byte> into) { return tls.receive_some(into); }));
  }
  comm::send_all(socket, bytes, deadline);
  return parse_response(receive_rest(
      [&](std::span<std::byte> into) { return receive_plain(socket, into, deadline); }));
}

}  // namespace trireme::ps
