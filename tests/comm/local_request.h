// A request to a server on this machine, byte by byte as a client that may misbehave would send it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "comm/net/socket.h"

namespace trireme {

/// Sends the text and returns everything that the server answers until it closes. Throws Error(System) after a minute.
inline std::string request(int port, const std::string& text) {
  constexpr Seconds kPatience{60};
  const comm::Deadline deadline = comm::deadline_in(kPatience);
  const comm::Fd socket = comm::connect_to({.port = static_cast<std::uint16_t>(port)}, deadline);
  comm::send_all(socket, std::as_bytes(std::span(text)), deadline);
  std::string answer;
  std::array<std::byte, 65536> piece{};
  while (comm::wait_for(socket, comm::Ready::Read, deadline)) {
    const comm::Transfer got = comm::receive_some(socket, piece);
    if (got.outcome == comm::Transfer::Outcome::Closed) {
      return answer;
    }
    for (std::size_t i = 0; i < got.bytes; ++i) {
      answer += static_cast<char>(piece.at(i));
    }
  }
  throw std::runtime_error("no answer in a minute, only: " + answer);
}

/// The same for a page, with the headers that a browser sends.
inline std::string get(int port, const std::string& path = "/") {
  return request(port, "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                           "\r\nAccept: text/html\r\n\r\n");
}

}  // namespace trireme
