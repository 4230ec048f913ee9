#include "trireme/page_server.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "comm/net/socket.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using comm::deadline_in;
using comm::Fd;

constexpr std::size_t kLongestRequest = 16384;
constexpr Seconds kRequestTime{2};
constexpr Seconds kAnswerTime{10};
/// How often the thread looks whether it should end.
constexpr Seconds kServerPause{0.1};

comm::Listener listen_here(int port) {
  const comm::Address address{.port = static_cast<std::uint16_t>(port)};
  try {
    return comm::listen_on(address);
  } catch (const comm::AddressInUse&) {
    throw Error(ErrorKind::Usage,
                fmt::format("port {} of 127.0.0.1 is in use; choose another", port));
  }
}

/// The head of a request: everything up to the empty line. Shorter if the client closes, takes too long or sends too much.
std::string read_head(const Fd& socket) {
  const comm::Deadline deadline = deadline_in(kRequestTime);
  std::string head;
  std::array<std::byte, 4096> piece{};
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < kLongestRequest &&
         comm::wait_for(socket, comm::Ready::Read, deadline)) {
    const comm::Transfer got = comm::receive_some(socket, piece);
    if (got.outcome == comm::Transfer::Outcome::Closed) {
      break;
    }
    for (std::size_t i = 0; i < got.bytes; ++i) {
      head += static_cast<char>(piece.at(i));
    }
  }
  return head;
}

/// The value of the Host header, in lower case; "" if there is none.
std::string host_of(std::string_view head) {
  std::string lower;
  for (const char c : head) {
    lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  constexpr std::string_view kHost = "\r\nhost:";
  const std::size_t at = lower.find(kHost);
  if (at == std::string::npos) {
    return {};
  }
  const std::size_t begin = lower.find_first_not_of(' ', at + kHost.size());
  return lower.substr(begin, lower.find('\r', begin) - begin);
}

struct Answer {
  std::string_view status;
  std::string_view type;
  std::string body;
};

Answer refusal(std::string_view status) {
  return {.status = status, .type = "text/plain", .body = std::string(status) + "\n"};
}

std::string to_text(const Answer& answer) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n{}\r\n{}",
      answer.status, answer.type, answer.body.size(),
      answer.status.starts_with("405") ? "Allow: GET\r\n" : "", answer.body);
}

}  // namespace

class PageServer::Impl {
 public:
  explicit Impl(int port) : listener_(listen_here(port)) {}
  ~Impl() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] int port() const { return listener_.address.port; }

  void start(std::function<std::string()> page) {
    TRIREME_CHECK(!thread_.joinable(), "a page server is started once");
    page_ = std::move(page);
    thread_ = std::thread([this] { serve(); });
  }

 private:
  /// A connection that fails concerns only its client.
  void serve() {
    while (!stop_) {
      try {
        serve_next();
      } catch (const Error&) {
        std::this_thread::sleep_for(comm::duration(kServerPause));
      }
    }
  }

  /// Answers a client, if one connects before the pause is over.
  void serve_next() {
    if (!comm::wait_for(listener_.socket, comm::Ready::Read, deadline_in(kServerPause))) {
      return;
    }
    if (std::optional<Fd> socket = comm::accept_now(listener_.socket)) {
      const std::string answer = to_text(answer_to(read_head(*socket)));
      comm::send_all(*socket, std::as_bytes(std::span(answer)), deadline_in(kAnswerTime));
      comm::close_politely(*socket);
    }
  }

  [[nodiscard]] bool is_own(std::string_view host) const {
    return host == fmt::format("127.0.0.1:{}", port()) ||
           host == fmt::format("localhost:{}", port());
  }

  [[nodiscard]] Answer answer_to(const std::string& head) const {
    if (head.find("\r\n\r\n") == std::string::npos || head.find(" HTTP/1.") == std::string::npos) {
      return refusal("400 Bad Request");
    }
    if (!head.starts_with("GET ")) {
      return refusal("405 Method Not Allowed");
    }
    if (!is_own(host_of(head))) {
      return refusal("403 Forbidden");
    }
    if (!head.starts_with("GET / ")) {
      return refusal("404 Not Found");
    }
    try {
      return {.status = "200 OK", .type = "text/html", .body = page_()};
    } catch (const Error& error) {
      return {.status = "500 Internal Server Error", .type = "text/plain", .body = error.what()};
    }
  }

  comm::Listener listener_;
  std::function<std::string()> page_;  ///< set before the thread starts
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

PageServer::PageServer(int port) : impl_(std::make_unique<Impl>(port)) {}
PageServer::~PageServer() = default;

std::string PageServer::address() const {
  return fmt::format("http://127.0.0.1:{}/", impl_->port());
}

void PageServer::start(std::function<std::string()> page) {
  impl_->start(std::move(page));
}

}  // namespace trireme
