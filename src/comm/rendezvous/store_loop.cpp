#include "comm/rendezvous/store_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trireme/error.h"

namespace trireme::comm {
namespace {

using Outcome = Transfer::Outcome;

constexpr std::size_t kMaxRefusals = 64;
/// The server stops reading from a client with this much unreceived output.
constexpr std::size_t kMaxBacklog = std::size_t{32} << 20;
/// Chunks that one client may send before the others get their turn.
constexpr int kTurn = 64;

/// What an epoll event refers to.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kStop = 1;
constexpr std::uint64_t kFirstClient = 2;

}  // namespace

StoreLoop::StoreLoop(const TcpStoreServerOptions& options)
    : options_(options),
      listener_(listen_on(options.listen)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      chunk_(kStoreReadBytes),
      next_name_(kFirstClient) {
  if (!epoll_.valid() || !stop_.valid()) {
    throw_system("cannot create the store's epoll instance", errno);
  }
  watch(EPOLL_CTL_ADD, listener_.socket, kListener, EPOLLIN);
  watch(EPOLL_CTL_ADD, stop_, kStop, EPOLLIN);
}

void StoreLoop::run() noexcept {
  try {
    while (serve_events()) {
      drop_late_clients();
    }
  } catch (const std::exception& error) {  // the store has failed; its clients will report it
    note(fmt::format("the store stopped: {}", error.what()));
  }
  flush_all();
  clients_.clear();
  listener_.socket.reset();
}

void StoreLoop::stop() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
}

std::vector<std::string> StoreLoop::refusals() const {
  const MutexLock lock(refusals_mutex_);
  return {refusals_.begin(), refusals_.end()};
}

void StoreLoop::watch(int operation, const Fd& fd, std::uint64_t about, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = about;
  if (::epoll_ctl(epoll_.get(), operation, fd.get(), &event) != 0) {
    throw_system("cannot watch a socket of the store", errno);
  }
}

/// The next time at which to act even without events.
Deadline StoreLoop::next_deadline() const {
  Deadline next = listening_ ? deadline_in({3600.0}) : listen_again_;
  if (!unauthenticated_.empty()) {
    next = std::min(next, oldest_unauthenticated() + duration(options_.handshake_patience));
  }
  return next;
}

/// False on stop().
bool StoreLoop::serve_events() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 poll_timeout(next_deadline()));
  if (count < 0 && errno != EINTR) {
    throw_system("the store cannot wait for its clients", errno);
  }
  for (int i = 0; i < count; ++i) {
    const std::uint64_t about = events.at(i).data.u64;
    if (about == kStop) {
      return false;
    }
    if (about == kListener) {
      accept_clients();
    } else {
      serve(about);
    }
  }
  return true;
}

void StoreLoop::accept_clients() {
  try {
    while (has_room()) {
      std::optional<Fd> socket = accept_now(listener_.socket);
      if (!socket) {
        return;
      }
      add_client(std::move(*socket));
    }
    // Until the oldest unauthenticated client may be dropped; one that finishes earlier frees a place, too.
    waits_for_room_ = true;
    rest_until(oldest_unauthenticated() + duration(kMinHandshakeTime));
  } catch (const Error& error) {
    // Descriptors ran out. Drop unauthenticated clients first.
    note(error.what());
    if (!unauthenticated_.empty()) {
      return drop(unauthenticated_.front(), "was dropped in the handshake, to make room");
    }
    rest_until(deadline_in({0.1}));
  }
}

/// Whether one more unauthenticated client may connect; drops the oldest for it if it has had its time.
bool StoreLoop::has_room() {
  if (unauthenticated_.size() < most_unauthenticated_) {
    return true;
  }
  if (!passed(oldest_unauthenticated() + duration(kMinHandshakeTime))) {
    return false;
  }
  drop(unauthenticated_.front(), "was dropped in the handshake, to make room");
  return true;
}

/// The listener is paused, or epoll would report it over and over.
void StoreLoop::rest_until(Deadline deadline) {
  watch(EPOLL_CTL_MOD, listener_.socket, kListener, 0);
  listening_ = false;
  listen_again_ = deadline;
}

Clock::time_point StoreLoop::oldest_unauthenticated() const {
  return clients_.at(unauthenticated_.front()).since;
}

void StoreLoop::add_client(Fd socket) {
  const std::uint64_t name = next_name_++;
  Channel channel(std::move(socket), {.side = Side::Server,
                                      .purpose = Purpose::Store,
                                      .secret = options_.secret,
                                      .encryption = options_.encryption,
                                      .peer = {}});
  watch(EPOLL_CTL_ADD, channel.socket(), name, EPOLLIN);
  clients_.emplace(name, Client{.channel = std::move(channel),
                                .since = Clock::now(),
                                .reader = {},
                                .out = {},
                                .watched = EPOLLIN});
  unauthenticated_.push_back(name);
  serve(name);
}

void StoreLoop::drop_late_clients() {
  const bool has_room_again = waits_for_room_ && unauthenticated_.size() < most_unauthenticated_;
  if (!listening_ && (passed(listen_again_) || has_room_again)) {
    watch(EPOLL_CTL_MOD, listener_.socket, kListener, EPOLLIN);
    listening_ = true;
    waits_for_room_ = false;
  }
  // In order of arrival, which is also the order of their deadlines.
  while (!unauthenticated_.empty() &&
         passed(oldest_unauthenticated() + duration(options_.handshake_patience))) {
    drop(unauthenticated_.front(),
         fmt::format("did not finish the handshake within {}; is it a Trireme peer?",
                     trireme::to_text(options_.handshake_patience)));
  }
}

/// Serves a client as far as possible. A problem with it ends only that client.
void StoreLoop::serve(std::uint64_t name) {
  const auto at = clients_.find(name);
  if (at == clients_.end()) {
    return;  // dropped by an earlier event
  }
  try {
    if (progress(name, at->second)) {
      watch_for_more(name, at->second);
    } else {
      forget(name);
    }
  } catch (const Disagreement& error) {
    refuse(name, at->second, error.what());
    refuse_all(error.what());
  } catch (const std::exception& error) {
    refuse(name, at->second, error.what());
  }
}

/// A rank of the job has other settings and will not join: the waiting ranks learn why. One that has not sent a request
/// learns it when it does; it may not be able to read yet.
void StoreLoop::refuse_all(const std::string& why) {
  disagreement_ = why;
  std::vector<std::uint64_t> names;
  for (const auto& [name, client] : clients_) {
    if (client.has_asked) {
      names.push_back(name);
    }
  }
  for (const std::uint64_t name : names) {
    refuse(name, clients_.at(name), why);
  }
}

/// False if the client has left.
bool StoreLoop::progress(std::uint64_t name, Client& client) {
  if (!client.channel.is_open()) {
    if (!client.channel.advance()) {
      return true;
    }
    std::erase(unauthenticated_, name);
  }
  for (int turn = 0; turn < kTurn; ++turn) {
    if (!answer_frames(name, client)) {
      return false;
    }
    if (client.backlog() > kMaxBacklog) {
      return true;
    }
    const Transfer received = client.channel.read(chunk_);
    if (received.outcome != Outcome::Moved) {
      return received.outcome != Outcome::Closed;
    }
    client.reader.add(std::span(chunk_).first(received.bytes));
  }
  return answer_frames(name, client);
}

/// Answers all pending requests, unless the client has much to receive. Sends last, so that the channel knows its
/// pending events. False if the client has left.
bool StoreLoop::answer_frames(std::uint64_t name, Client& client) {
  for (;;) {
    bool all = false;
    while (!all && client.backlog() <= kMaxBacklog) {
      const std::optional<std::string> frame = client.reader.next();
      all = !frame;
      if (frame) {
        answer(name, client, *frame);
      }
    }
    if (!client.flush()) {
      return false;
    }
    if (all || client.backlog() > kMaxBacklog) {
      return true;
    }
  }
}

void StoreLoop::answer(std::uint64_t name, Client& client, const std::string& frame) {
  client.has_asked = true;
  if (!disagreement_.empty()) {
    throw Error(ErrorKind::Peer, disagreement_);
  }
  deliver(name, service_.handle(name, decode_request(frame)));
}

/// Queues the answers to a request of `asker`.
void StoreLoop::deliver(std::uint64_t asker, const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    Client& client = clients_.at(answer.client);
    client.out += answer.frame;
    if (answer.client != asker && client.watched != (EPOLLIN | EPOLLOUT)) {
      // Not sent from here, while serving another client: epoll will report it.
      client.watched = EPOLLIN | EPOLLOUT;
      watch(EPOLL_CTL_MOD, client.channel.socket(), answer.client, client.watched);
    }
  }
}

void StoreLoop::watch_for_more(std::uint64_t name, Client& client) {
  const std::uint32_t in = client.backlog() > kMaxBacklog ? 0U : EPOLLIN;
  // Bytes that have arrived but that epoll does not see are read when the client becomes writable: soon.
  const bool soon = client.channel.wants_write() || (in != 0 && client.channel.has_buffered());
  const std::uint32_t out = soon ? EPOLLOUT : 0U;
  if (client.watched != (in | out)) {
    client.watched = in | out;
    watch(EPOLL_CTL_MOD, client.channel.socket(), name, client.watched);
  }
}

bool StoreLoop::Client::flush() {
  while (backlog() > 0) {
    const Transfer sent = channel.write(bytes_of(out).subspan(out_sent));
    if (sent.outcome != Outcome::Moved) {
      return sent.outcome != Outcome::Closed;
    }
    out_sent += sent.bytes;
  }
  out = {};
  out_sent = 0;
  return true;
}

/// Sends pending answers, as far as possible without waiting: they may explain why the job ends.
void StoreLoop::flush_all() noexcept {
  for (auto& [name, client] : clients_) {
    try {
      if (client.channel.is_open()) {
        (void)client.flush();
      }
    } catch (const std::exception&) {  // it has left
    }
  }
}

void StoreLoop::forget(std::uint64_t name) {
  std::erase(unauthenticated_, name);
  clients_.erase(name);
  service_.forget(name);
}

void StoreLoop::refuse(std::uint64_t name, Client& client, const std::string& why) {
  if (client.channel.is_open()) {
    note(fmt::format("{}: {}", client.channel.peer(), why));
    try {
      client.out += encode(0, Reply::Status::Refused, why);
      (void)client.flush();
    } catch (const std::exception&) {  // not worth a second error
    }
    client.channel.close();
  } else {
    note(why);  // the handshake's errors already contain the name
  }
  forget(name);
}

void StoreLoop::drop(std::uint64_t name, std::string_view why) {
  note(fmt::format("{} {}", clients_.at(name).channel.peer(), why));
  forget(name);
}

void StoreLoop::note(std::string refusal) {
  const MutexLock lock(refusals_mutex_);
  refusals_.push_back(std::move(refusal));
  if (refusals_.size() > kMaxRefusals) {
    refusals_.pop_front();
  }
}

}  // namespace trireme::comm
