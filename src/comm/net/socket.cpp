#include "comm/net/socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "comm/net/endpoint.h"
#include "trireme/error.h"

namespace trireme::comm {
namespace {

using Outcome = Transfer::Outcome;

Fd make_socket(const Endpoint& endpoint) {
  Fd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    throw_system("cannot create a TCP socket", errno);
  }
  return socket;
}

void set_option(const Fd& socket, int level, int option) {
  const int on = 1;
  if (setsockopt(socket.get(), level, option, &on, sizeof(on)) != 0) {
    throw_system("cannot set an option of a TCP socket", errno);
  }
}

Endpoint name_of(const Fd& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  Endpoint endpoint;
  if (ask(socket.get(), endpoint.get(), &endpoint.length) != 0) {
    throw_system("cannot query the address of a TCP socket", errno);
  }
  return endpoint;
}

/// Connecting repeatedly to a free port of this host can, by chance, connect a socket to itself.
bool is_connected_to_itself(const Fd& socket) {
  return to_address(name_of(socket, getsockname)) == to_address(name_of(socket, getpeername));
}

/// The connected socket, or the error number.
std::pair<Fd, int> try_connect(const Endpoint& endpoint, Deadline deadline) {
  Fd socket = make_socket(endpoint);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  if (::connect(socket.get(), endpoint.get(), endpoint.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) {
      return {Fd(), errno};
    }
    if (!wait_for(socket, Ready::Write, deadline)) {
      return {Fd(), ETIMEDOUT};
    }
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
      return {Fd(), error != 0 ? error : errno};
    }
  }
  try {
    if (is_connected_to_itself(socket)) {
      return {Fd(), ECONNREFUSED};
    }
  } catch (const Error&) {  // it is closed again already
    return {Fd(), ECONNRESET};
  }
  return {std::move(socket), 0};
}

bool may_come_up(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ECONNABORTED ||
         error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EHOSTDOWN || error == EADDRNOTAVAIL || error == EAGAIN;
}

/// One attempt at each of the addresses; each gets its share of the remaining time.
std::pair<Fd, int> try_each(const std::vector<Endpoint>& endpoints, Deadline deadline) {
  int last_error = 0;
  auto untried = static_cast<std::int64_t>(endpoints.size());
  for (const Endpoint& endpoint : endpoints) {
    const Clock::time_point now = Clock::now();
    auto [socket, error] = try_connect(endpoint, now + (deadline - now) / untried--);
    if (error == 0 || !may_come_up(error)) {
      return {std::move(socket), error};
    }
    // A refusal is more informative than "no route".
    last_error = last_error == ECONNREFUSED ? last_error : error;
  }
  return {Fd(), last_error};
}

}  // namespace

std::optional<Fd> start_connecting(const Address& address) {
  for (const Endpoint& endpoint : resolve(address).endpoints) {
    Fd socket = make_socket(endpoint);
    set_option(socket, IPPROTO_TCP, TCP_NODELAY);
    if (::connect(socket.get(), endpoint.get(), endpoint.length) == 0 || errno == EINPROGRESS) {
      return socket;
    }
  }
  return std::nullopt;
}

Listener listen_on(const Address& address) {
  const std::string what = fmt::format("cannot listen on {}", to_text(address));
  const Resolved resolved = resolve(address);
  if (resolved.endpoints.empty()) {
    throw Error(ErrorKind::System, fmt::format("{}: {}", what, resolved.problem));
  }
  const Endpoint& endpoint = resolved.endpoints.front();
  Fd socket = make_socket(endpoint);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);
  if (::bind(socket.get(), endpoint.get(), endpoint.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) {
      throw AddressInUse(fmt::format("{}: {}", what, error_text(errno)));
    }
    throw_system(what, errno);
  }
  Address real = address;
  real.port = to_address(name_of(socket, getsockname)).port;
  return {.socket = std::move(socket), .address = std::move(real)};
}

Fd connect_to(const Address& address, Deadline deadline) {
  constexpr std::chrono::milliseconds kLongestPause(100);
  const Clock::time_point begin = Clock::now();
  std::chrono::milliseconds pause(2);
  for (;;) {
    const Resolved resolved = resolve(address);
    auto [socket, error] = try_each(resolved.endpoints, deadline);
    if (socket.valid()) {
      return std::move(socket);
    }
    const bool hopeless = error != 0 && !may_come_up(error);
    if (hopeless || Clock::now() + pause >= deadline) {
      const std::string why = error != 0 ? error_text(error) : resolved.problem;
      throw Error(ErrorKind::System,
                  fmt::format("cannot connect to {}: {} (tried for {})", to_text(address), why,
                              trireme::to_text(since(begin))));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

std::optional<Fd> accept_now(const Fd& listener) {
  for (;;) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      const int on = 1;  // may fail if the peer has already closed, which reading will detect
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return socket;
    }
    if (errno == EAGAIN) {
      return std::nullopt;
    }
    if (errno != EINTR && errno != ECONNABORTED) {
      throw_system("cannot accept a connection", errno);
    }
  }
}

Fd accept_one(const Fd& listener, Deadline deadline) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    if (std::optional<Fd> socket = accept_now(listener)) {
      return std::move(*socket);
    }
    if (!wait_for(listener, Ready::Read, deadline)) {
      throw Error(ErrorKind::System, fmt::format("port {}: no connection within {}",
                                                 to_address(name_of(listener, getsockname)).port,
                                                 trireme::to_text(since(begin))));
    }
  }
}

std::string peer_of(const Fd& socket) {
  Endpoint endpoint;
  if (getpeername(socket.get(), endpoint.get(), &endpoint.length) != 0) {
    return "an unknown peer";
  }
  return to_text(to_address(endpoint));
}

bool wait_for(const Fd& socket, Ready what, Deadline deadline) {
  pollfd entry{.fd = socket.get(),
               .events = static_cast<short>(what == Ready::Read ? POLLIN : POLLOUT),
               .revents = 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, poll_timeout(deadline));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      throw_system("cannot wait for a socket", errno);
    }
    if (passed(deadline)) {
      return false;
    }
  }
}

}  // namespace trireme::comm
