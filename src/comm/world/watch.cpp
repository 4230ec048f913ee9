#include "comm/world/watch.h"

#include <algorithm>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace trireme::comm {
namespace {

/// Heartbeats per deadline. A verdict follows at most one heartbeat after the deadline.
constexpr int kBeatsPerDeadline = 8;

}  // namespace

Watch::Watch(RankPage* own, std::vector<Watched> peers, Seconds deadline, Handlers handlers)
    : own_(own),
      peers_(std::move(peers)),
      pulses_(peers_.size()),
      deadline_(std::chrono::nanoseconds(static_cast<std::int64_t>(deadline.count * 1e9))),
      handlers_(std::move(handlers)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto now = std::chrono::steady_clock::now();
  for (Pulse& pulse : pulses_) {
    pulse.changed = now;
  }
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  stopping_.store(true);
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

/// Waits until the next heartbeat is due, or a process ends.
void Watch::wait() {
  std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].death >= 0 && !pulses_[i].over) {
      fds.push_back({peers_[i].death, POLLIN, 0});
    }
  }
  const auto period =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline_) / kBeatsPerDeadline;
  poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(1, period.count())));
}

void Watch::run() {
  auto last = std::chrono::steady_clock::now();
  while (!stopping_.load()) {
    if (own_ != nullptr) {
      own_->beats.fetch_add(1, std::memory_order_relaxed);
    }
    wait();
    const auto now = std::chrono::steady_clock::now();
    if (now - last > deadline_ / 2) {
      // This process stalled; restart the timers of the others.
      for (Pulse& pulse : pulses_) {
        pulse.changed = now;
      }
    }
    last = now;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!pulses_[i].over) {
        check_peer(i, now);
      }
    }
    handlers_.tick();
  }
}

void Watch::check_peer(std::size_t index, std::chrono::steady_clock::time_point now) {
  const Watched& peer = peers_[index];
  Pulse& pulse = pulses_[index];
  if (peer.page == nullptr) {
    return;
  }
  if (peer.page->presence.load(std::memory_order_acquire) == Presence::Left) {
    pulse.over = true;
    return;
  }
  if (const std::uint32_t verdict = peer.page->verdict.load(); verdict != 0) {
    end(index, static_cast<CommFault>(verdict - 1), "as another rank found");
    return;
  }
  if (peer.death >= 0) {
    pollfd fd{peer.death, POLLIN, 0};
    if (poll(&fd, 1, 0) > 0) {
      end(index, CommFault::Died, "its process ended");
      return;
    }
  }
  const std::uint64_t beats = peer.page->beats.load(std::memory_order_relaxed);
  if (beats != pulse.beats) {
    pulse.beats = beats;
    pulse.changed = now;
  } else if (now - pulse.changed > deadline_) {
    end(index, CommFault::Stopped,
        fmt::format("silent for {:.1f} s",
                    std::chrono::duration<double>(now - pulse.changed).count()));
  }
}

void Watch::end(std::size_t index, CommFault fault, const std::string& text) {
  pulses_[index].over = true;
  std::uint32_t none = 0;
  peers_[index].page->verdict.compare_exchange_strong(none, static_cast<std::uint32_t>(fault) + 1);
  handlers_.report(peers_[index].rank, fault, text);
}

}  // namespace trireme::comm
