#include "comm/proxy.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <utility>

#include <poll.h>

#include "comm/net/deadline.h"
#include "trireme/error.h"

namespace trireme::test {

using comm::Clock;
using comm::Fd;
using comm::Transfer;

namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxUnderWay = std::size_t{4} << 20;
/// Between single bytes.
constexpr std::chrono::microseconds kMoment{300};

Clock::duration to_duration(Seconds time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.count));
}

}  // namespace

/// One connection: two sockets, and the bytes in flight in each direction.
class Proxy::Connection {
 public:
  Connection(Fd client, Fd server, std::size_t number, const Meddling& meddling, Passed& passed)
      : client_(std::move(client)),
        server_(std::move(server)),
        number_(number),
        meddling_(meddling),
        passed_(passed) {}
  [[nodiscard]] std::size_t number() const { return number_; }

  /// Moves what can be moved. False once it is over; sets `struck` when the fault has happened.
  bool move(std::atomic<bool>& struck) {
    for (const Way way : {Way::ToServer, Way::ToClient}) {
      if (!read(way, struck) || !write(way)) {
        return false;
      }
    }
    const bool ended = std::ranges::any_of(
        lanes_, [](const Lane& lane) { return lane.ended && lane.chunks.empty(); });
    return !ended;
  }

  void add_to(std::vector<pollfd>& fds) const {
    fds.push_back({client_.get(), POLLIN, 0});
    fds.push_back({server_.get(), POLLIN, 0});
  }

 private:
  /// Bytes in flight, and when they may arrive.
  struct Chunk {
    std::vector<std::byte> bytes;
    Clock::time_point due;
    std::size_t sent = 0;
  };
  struct Lane {
    std::deque<Chunk> chunks;
    std::size_t seen = 0;     ///< bytes read
    std::size_t waiting = 0;  ///< bytes in chunks
    Clock::time_point last_due{};
    bool ended = false;
  };

  [[nodiscard]] Lane& lane(Way way) { return lanes_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] bool is_here(const std::optional<TrafficSpot>& spot, Way way, std::size_t bytes) {
    return spot && spot->connection == number_ && spot->way == way &&
           spot->byte >= lane(way).seen && spot->byte < lane(way).seen + bytes;
  }

  bool read(Way way, std::atomic<bool>& struck) {
    Lane& l = lane(way);
    if (l.ended || l.waiting > kMaxUnderWay) {
      return true;
    }
    std::array<std::byte, kReadBytes> buffer;
    const std::size_t most = l.seen < meddling_.dribble ? 1 : buffer.size();
    const Transfer got =
        comm::receive_some(way == Way::ToServer ? client_ : server_, std::span(buffer).first(most));
    if (got.outcome == Transfer::Outcome::Closed) {
      l.ended = true;
      return true;
    }
    if (got.outcome != Transfer::Outcome::Moved) {
      return true;
    }
    if (is_here(meddling_.flip, way, got.bytes)) {
      buffer[meddling_.flip->byte - l.seen] ^= std::byte{1} << meddling_.bit;
      struck = true;
    }
    const bool cut = is_here(meddling_.close, way, got.bytes);
    const std::size_t kept = cut ? meddling_.close->byte - l.seen : got.bytes;
    enqueue(l, std::span(buffer).first(kept));
    if (meddling_.record) {
      passed_.add(number_, way, std::span(buffer).first(kept));
    }
    l.seen += got.bytes;
    l.ended = cut;
    struck = struck || cut;
    return true;
  }

  void enqueue(Lane& l, std::span<const std::byte> bytes) {
    if (bytes.empty()) {
      return;
    }
    const bool late = !meddling_.delayed || *meddling_.delayed == number_;
    Clock::time_point due =
        Clock::now() + (late ? to_duration(meddling_.delay) : Clock::duration{});
    if (l.seen < meddling_.dribble) {
      due = std::max(due, l.last_due + kMoment);
    }
    l.last_due = due;
    l.waiting += bytes.size();
    l.chunks.push_back({{bytes.begin(), bytes.end()}, due});
  }

  bool write(Way way) {
    Lane& l = lane(way);
    while (!l.chunks.empty() && l.chunks.front().due <= Clock::now()) {
      Chunk& chunk = l.chunks.front();
      const Transfer put = comm::send_some(way == Way::ToServer ? server_ : client_,
                                           std::span(chunk.bytes).subspan(chunk.sent));
      if (put.outcome == Transfer::Outcome::Closed) {
        return false;
      }
      if (put.outcome != Transfer::Outcome::Moved) {
        return true;
      }
      chunk.sent += put.bytes;
      l.waiting -= put.bytes;
      if (chunk.sent == chunk.bytes.size()) {
        l.chunks.pop_front();
      }
    }
    return true;
  }

  Fd client_;
  Fd server_;
  std::size_t number_;
  const Meddling& meddling_;
  Passed& passed_;
  std::array<Lane, 2> lanes_{};
};

void Passed::add(std::size_t connection, Way way, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  bytes_[{connection, way}].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::size_t Passed::size() const {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [where, bytes] : bytes_) {
    total += bytes.size();
  }
  return total;
}

bool Passed::contains(std::string_view words) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      bytes_, [&](const auto& entry) { return entry.second.find(words) != std::string::npos; });
}

Proxy::Proxy(comm::Address server, const Meddling& meddling)
    : server_(std::move(server)), meddling_(meddling), listener_(comm::listen_on()) {
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  stopping_ = true;
  thread_.join();
}

/// Waits until something may have changed; never long, because delayed bytes become due on their
/// own.
void Proxy::wait() const {
  std::vector<pollfd> fds{{listener_.socket.get(), POLLIN, 0}};
  for (const auto& connection : connections_) {
    connection->add_to(fds);
  }
  poll(fds.data(), fds.size(), 1);
}

void Proxy::run() {
  while (!stopping_) {
    while (auto client = comm::accept_now(listener_.socket)) {
      try {
        Fd server = comm::connect_to(server_, comm::deadline_in({1.0}));
        connections_.push_back(std::make_unique<Connection>(std::move(*client), std::move(server),
                                                            accepted_++, meddling_, passed_));
      } catch (const Error&) {
        continue;  // nothing is listening there any more: close the client, too
      }
    }
    const std::size_t cut = cut_;
    std::erase_if(connections_, [&](const auto& connection) {
      return connection->number() == cut || !connection->move(struck_);
    });
    wait();
  }
}

}  // namespace trireme::test
