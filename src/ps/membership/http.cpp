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

using Outcome = comm::Transfer::Outcome;

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

/// Until the other side closes.
std::string receive_rest(const comm::Fd& socket, comm::Deadline deadline) {
  std::string text;
  std::array<std::byte, 16384> bytes{};
  for (;;) {
    const comm::Transfer transfer = comm::receive_some(socket, bytes);
    text.append(reinterpret_cast<const char*>(bytes.data()), transfer.bytes);
    if (transfer.outcome == Outcome::Closed) {
      return text;
    }
    if (text.size() > kMaxResponse) {
      throw Error(ErrorKind::System, "the response is too long");
    }
    if (transfer.outcome != Outcome::Moved &&
        !comm::wait_for(socket, comm::Ready::Read, deadline)) {
      throw Error(ErrorKind::System, "no answer in time");
    }
  }
}

/// "HTTP/1.0 200 OK", headers, an empty line, the body.
HttpResponse parse_response(std::string_view text) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = text.find(kEnd);
  const std::vector<std::string_view> words = split_words(text.substr(0, text.find("\r\n")));
  const bool is_http = words.size() >= 2 && words[0].starts_with("HTTP/1.");
  const std::optional<std::int64_t> status = is_http ? parse_integer(words[1]) : std::nullopt;
  if (end == std::string_view::npos || !status) {
    throw Error(ErrorKind::System, text.empty() ? "closed the connection without an answer"
                                                : "the answer is not HTTP");
  }
  return {static_cast<int>(*status), std::string(text.substr(end + kEnd.size()))};
}

}  // namespace

HttpResponse http_post(const comm::Address& server, const std::string& path,
                       const std::string& json, comm::Deadline deadline) {
  const comm::Fd socket = connect(server, deadline);
  const std::string request = fmt::format(
      "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      path, comm::to_text(server), json.size(), json);
  comm::send_all(socket, std::as_bytes(std::span(request)), deadline);
  return parse_response(receive_rest(socket, deadline));
}

}  // namespace trireme::ps
