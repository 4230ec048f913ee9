#include "comm/control.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "comm/world_core.h"

namespace trireme::comm {

bool Departures::is_final(Rank rank, bool coming) {
  constexpr std::chrono::milliseconds kStillOnTheWay{50};
  const auto now = std::chrono::steady_clock::now();
  auto& since = quiet_since_.emplace(rank, now).first->second;
  since = coming ? now : since;
  return now - since > kStillOnTheWay;
}

void Exchanges::put(std::uint64_t context, std::uint64_t round, Rank from, Bytes data) {
  MutexLock lock(mutex_);
  data_[{context, round, from}] = std::move(data);
}

std::optional<Exchanges::Bytes> Exchanges::take(std::uint64_t context, std::uint64_t round,
                                                Rank from) {
  MutexLock lock(mutex_);
  const auto it = data_.find({context, round, from});
  if (it == data_.end()) {
    return std::nullopt;
  }
  Bytes data = std::move(it->second);
  data_.erase(it);
  return data;
}

ExchangeOp::ExchangeOp(WorldCore& world, Options options)
    : world_(world),
      options_(std::move(options)),
      heard_(options_.ranks.size()),
      lost_(options_.ranks.size(), false) {}

Progress ExchangeOp::advance() {
  if (!told_) {
    told_ = true;
    std::vector<std::byte> message(sizeof(options_.round));
    std::memcpy(message.data(), &options_.round, sizeof(options_.round));
    message.insert(message.end(), options_.mine.begin(), options_.mine.end());
    for (std::size_t i = 0; i < options_.ranks.size(); ++i) {
      if (options_.ranks[i] == world_.rank()) {
        heard_[i] = Exchanges::Bytes(options_.mine.begin(), options_.mine.end());
      } else {
        world_.post_control(options_.ranks[i], ControlKind::Exchange, options_.context, message);
      }
    }
  }
  return listen();
}

Progress ExchangeOp::listen() {
  world_.progress();
  bool moved = false;
  bool all = true;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (!heard_[i] && !lost_[i]) {
      heard_[i] = world_.exchanges().take(options_.context, options_.round, options_.ranks[i]);
      moved = moved || heard_[i].has_value();
      all = all && heard_[i].has_value();
    }
  }
  if (all) {
    return Progress::Done;
  }
  return moved ? Progress::Moved : Progress::Stuck;
}

void ExchangeOp::check(Seconds stuck) {
  (void)listen();  // what a rank said before it went counts
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    if (heard_[i] || lost_[i]) {
      continue;
    }
    const Rank rank = options_.ranks[i];
    const std::optional<Trouble> trouble = world_.trouble(rank);
    const RankPage* page = world_.page(rank);
    const bool left = page != nullptr && page->presence.load() == Presence::Left;
    if (trouble || left) {
      if (!gone_.is_final(rank, world_.mailbox().is_in_the_middle(rank))) {
        continue;
      }
      if (options_.lost == Options::Lost::LeaveOut) {
        lost_[i] = true;
        continue;
      }
    } else if (stuck < options_.patience) {
      continue;
    }
    throw CommError(trouble ? trouble->fault : (left ? CommFault::Left : CommFault::Late), {rank},
                    fmt::format("making a group: rank {} {}", rank,
                                trouble ? trouble->text
                                        : (left ? "has left the world"
                                                : fmt::format("did not come within {}",
                                                              to_text(options_.patience)))));
  }
}

}  // namespace trireme::comm
