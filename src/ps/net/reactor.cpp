#include "ps/net/reactor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "comm/net/admission.h"
#include "trireme/error.h"

namespace trireme::ps {
namespace {

constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kWakeup = 1;
constexpr Seconds kDialAgain{0.02};
constexpr int kMaxRedials = 50;
constexpr Seconds kEagerTime{50e-6};
constexpr int kMinNaps = 8;
constexpr int kMaxDoublings = 7;
/// More than this waits for nobody: the peer does not read.
constexpr std::size_t kMaxBacklog = std::size_t{1} << 30;

}  // namespace

Reactor::Reactor(ReactorOptions options, Handlers handlers)
    : options_(std::move(options)),
      handlers_(std::move(handlers)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      host_(options_.shares_memory && options_.encryption == comm::Encryption::None
                ? shared_memory_host()
                : 0) {
  if (!epoll_.valid() || !wake_.valid()) {
    comm::throw_system("cannot make the parameter server's epoll", errno);
  }
  watch(EPOLL_CTL_ADD, wake_, kWakeup, EPOLLIN);
  if (options_.listen) {
    listener_ = comm::listen_on(*options_.listen);
    watch(EPOLL_CTL_ADD, listener_->socket, kListener, EPOLLIN);
  }
}

void Reactor::watch(int operation, const comm::Fd& fd, Name name, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  if (::epoll_ctl(epoll_.get(), operation, fd.get(), &event) != 0) {
    comm::throw_system("cannot watch a connection of the parameter server", errno);
  }
}

void Reactor::set_address(NodeId node, const std::string& address) {
  const comm::Address parsed = comm::parse_address(address);
  Destination& destination = destinations_[node];
  if (parsed != destination.address) {
    destination = {.address = parsed};
  }
}

void Reactor::redirect(NodeId node, const std::string& address) {
  set_address(node, address);
  if (const auto route = routes_.find(node); route != routes_.end()) {
    drop(route->second, {});
  }
}

void Reactor::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

Reactor::Events Reactor::wait(comm::Deadline deadline) const {
  Events events(64);
  int count = comm::passed(deadline) ? 0 : poll_eagerly(events, deadline);
  if (count == 0) {
    count = poll_events(events, comm::poll_timeout(deadline));
  }
  events.resize(static_cast<std::size_t>(count));
  return events;
}

/// A peer on another core often answers sooner than this thread would wake up. Where it does not, because it runs on this
/// core or there is nothing to do, ever more waits sleep at once.
int Reactor::poll_eagerly(Events& into, comm::Deadline deadline) const {
  if (naps_ > 0) {
    --naps_;
    return 0;
  }
  const comm::Deadline end = std::min(deadline, comm::deadline_in(kEagerTime));
  int count = 0;
  do {
    count = poll_events(into, 0);
  } while (count == 0 && !comm::passed(end));
  if (count > 0) {
    in_vain_ = 0;
  } else {
    naps_ = kMinNaps << in_vain_;
    in_vain_ = std::min(in_vain_ + 1, kMaxDoublings);
  }
  return count;
}

int Reactor::poll_events(Events& into, int timeout) const {
  const int count = ::epoll_wait(epoll_.get(), into.data(), static_cast<int>(into.size()), timeout);
  if (count < 0 && errno != EINTR) {
    comm::throw_system("the parameter server cannot wait for messages", errno);
  }
  return std::max(count, 0);
}

void Reactor::process(const Events& events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kListener) {
      accept_all();
    } else if (event.data.u64 == kWakeup) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof(count));
    } else {
      serve(event.data.u64);
    }
  }
  drop_late();
  redial();
  flush();
}

void Reactor::accept_all() {
  try {
    while (std::optional<comm::Fd> socket = comm::accept_now(listener_->socket)) {
      if (strangers_.size() >= comm::most_unauthenticated()) {
        drop(strangers_.front(), "was dropped in the handshake, to make room");
      }
      (void)add(std::move(*socket), false, {});
    }
  } catch (const Error& error) {  // descriptors ran out
    if (handlers_.refused) {
      handlers_.refused(error.what());
    }
    if (!strangers_.empty()) {
      drop(strangers_.front(), "was dropped in the handshake, to make room");
    }
  }
}

Reactor::Name Reactor::add(comm::Fd socket, bool is_caller, const std::string& peer) {
  const Name name = next_name_++;
  comm::Channel channel(std::move(socket),
                        {.side = is_caller ? comm::Side::Client : comm::Side::Server,
                         .purpose = comm::Purpose::ParameterServer,
                         .secret = options_.secret,
                         .encryption = options_.encryption,
                         .peer = peer,
                         .encryption_advice = options_.encryption_advice});
  const std::uint32_t events = is_caller ? EPOLLIN | EPOLLOUT : EPOLLIN;
  watch(EPOLL_CTL_ADD, channel.socket(), name, events);
  auto connection = std::make_unique<Connection>(std::move(channel), pool_,
                                                 Connection::Options{options_.self, host_});
  connection->set_place(handlers_.place);
  links_.emplace(name, Link{std::move(connection), comm::Clock::now(), is_caller, events});
  strangers_.push_back(name);
  return name;
}

void Reactor::connect(NodeId to) {
  if (!routes_.contains(to)) {
    want(to);
    dial(to);
  }
}

void Reactor::want(NodeId node) {
  if (const auto at = destinations_.find(node); at != destinations_.end()) {
    at->second.redials = 0;
    at->second.redial = comm::deadline_in(kDialAgain);
    wanted_.insert(node);
  }
}

/// What was sent to a node that could not be reached is lost. Who sent it repeats it when the node is connected, instead of
/// only much later.
void Reactor::redial() {
  std::erase_if(wanted_, [&](NodeId node) {
    Destination& destination = destinations_.at(node);
    if (routes_.contains(node) || destination.redials >= kMaxRedials) {
      return true;
    }
    if (comm::passed(destination.redial) && comm::passed(destination.next_try)) {
      ++destination.redials;
      dial(node);
    }
    return false;
  });
}

/// 0 if the node cannot be reached now.
Reactor::Name Reactor::dial(NodeId to) {
  const auto at = destinations_.find(to);
  if (at == destinations_.end() || !comm::passed(at->second.next_try)) {
    return 0;
  }
  at->second.next_try = comm::deadline_in(kDialAgain);
  std::optional<comm::Fd> socket = comm::start_connecting(at->second.address);
  if (!socket) {
    return 0;
  }
  const Name name = add(std::move(*socket), true, comm::to_text(at->second.address));
  Connection& connection = *links_.at(name).connection;
  connection.set_peer(to);
  links_.at(name).is_routed = true;
  connection.send_hello();
  routes_[to] = name;
  return name;
}

void Reactor::send(NodeId to, const Message& message) {
  auto route = routes_.find(to);
  if (route == routes_.end()) {
    connect(to);
    route = routes_.find(to);
  }
  const Name name = route != routes_.end() ? route->second : 0;
  const auto at = links_.find(name);
  if (at == links_.end() || at->second.connection->backlog() > kMaxBacklog) {
    return;
  }
  Connection& connection = *at->second.connection;
  try {
    connection.send(message);
  } catch (const Error&) {
    return;  // the connection is broken; reading will show it
  }
  if (connection.backlog() > 0 && (unflushed_.empty() || unflushed_.back() != name)) {
    unflushed_.push_back(name);
  }
}

void Reactor::detach() {
  for (auto& [name, link] : links_) {
    link.connection->detach();
  }
}

void Reactor::release(std::span<const float> memory) {
  for (auto& [name, link] : links_) {
    link.connection->release(memory);
  }
}

void Reactor::flush() {
  for (const Name name : std::exchange(unflushed_, {})) {
    const auto at = links_.find(name);
    if (at == links_.end() || !at->second.connection->is_open()) {
      continue;
    }
    try {
      if (at->second.connection->flush()) {
        watch_for_more(name, at->second);
        continue;
      }
      drop(name, {});
    } catch (const Error& error) {
      drop(name, error.what());
    }
  }
}

void Reactor::serve(Name name) {
  const auto at = links_.find(name);
  if (at == links_.end()) {
    return;  // dropped by an earlier event
  }
  try {
    if (progress(name, at->second) && at->second.connection->flush()) {
      watch_for_more(name, at->second);
    } else {
      drop(name, {});
    }
  } catch (const Error& error) {
    report_rejection(at->second, error);
    // Not reported: the protocol detects nodes that are down.
    const bool is_down = at->second.is_caller && error.kind() == ErrorKind::System;
    drop(name, is_down ? "" : error.what());
  }
}

/// A node that closes in the handshake may be about to end or to be short of descriptors: that may pass.
void Reactor::report_rejection(const Link& link, const Error& error) const {
  const bool may_pass = error.kind() != ErrorKind::Peer ||
                        dynamic_cast<const comm::ClosedInHandshake*>(&error) != nullptr;
  if (link.is_caller && !link.connection->is_open() && !may_pass && handlers_.rejected) {
    handlers_.rejected(*link.connection->peer(), error.what());
  }
}

/// False if the other side has closed.
bool Reactor::progress(Name name, Link& link) {
  Connection& connection = *link.connection;
  if (!connection.is_open()) {
    if (!connection.advance()) {
      return true;
    }
    std::erase(strangers_, name);
    if (link.is_caller && handlers_.connected) {
      handlers_.connected(*connection.peer());
    }
  }
  if (!connection.flush()) {
    return false;
  }
  bool is_open = true;
  do {
    is_open = connection.receive([&](NodeId from, Message& message) {
      learn_route(name, link);
      handlers_.message(from, message);
    });
    learn_route(name, link);
  } while (is_open && connection.has_more());
  return is_open;
}

/// As soon as the peer has introduced itself: a worker that only pushes sends nothing to the tails, which answer it. Two
/// callers with one name, of which one has to be refused, get their answers where they asked.
void Reactor::learn_route(Name name, Link& link) {
  const auto& peer = link.connection->peer();
  if (!peer || link.is_caller) {
    return;
  }
  const bool is_new = !std::exchange(link.is_routed, true);
  const auto [route, is_only] = routes_.try_emplace(*peer, name);
  const auto other = links_.find(route->second);
  const bool is_callers = other == links_.end() || !other->second.is_caller;
  if (is_only || is_new || is_callers) {
    route->second = name;
  }
  if (is_new && handlers_.connected) {
    handlers_.connected(*peer);
  }
}

void Reactor::watch_for_more(Name name, Link& link) {
  const std::uint32_t events =
      EPOLLIN | (link.connection->wants_write() ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
  if (events != link.watched) {
    link.watched = events;
    watch(EPOLL_CTL_MOD, link.connection->channel().socket(), name, events);
  }
}

void Reactor::drop(Name name, const std::string& why) {
  const auto at = links_.find(name);
  if (at == links_.end()) {
    return;
  }
  const Connection& connection = *at->second.connection;
  if (!why.empty() && handlers_.refused) {
    const std::string& peer = connection.channel().peer();
    handlers_.refused(why.starts_with(peer) ? why : fmt::format("{}: {}", peer, why));
  }
  std::erase(strangers_, name);
  if (const auto& peer = connection.peer()) {
    const auto route = routes_.find(*peer);
    if (route != routes_.end() && route->second == name) {
      routes_.erase(route);
      if (at->second.is_caller && connection.is_open()) {
        want(*peer);
      }
    }
  }
  links_.erase(at);
}

void Reactor::drop_late() {
  while (!strangers_.empty()) {
    const auto at = links_.find(strangers_.front());
    if (at != links_.end() &&
        !comm::passed(at->second.since + comm::duration(comm::kMaxHandshakeTime))) {
      return;
    }
    drop(strangers_.front(), "did not finish the handshake in time; is it a Trireme peer?");
  }
}

}  // namespace trireme::ps
