#include "comm/world/agreements.h"

#include <algorithm>

namespace trireme::comm {

void Agreements::begin(std::uint64_t context, std::vector<Rank> members, Rank me,
                       std::vector<std::byte> payload) {
  MutexLock lock(mutex_);
  const auto size = static_cast<Rank>(members.size());
  Entry& entry =
      entries_.emplace(context, Entry{std::move(members), Agreement(size, me, std::move(payload))})
          .first->second;
  for (const auto& [from, bytes] : early_[context]) {
    deliver(entry, from, bytes);
  }
  early_.erase(context);
  send_letters(context, entry);
}

void Agreements::receive(std::uint64_t context, Rank from, std::span<const std::byte> bytes) {
  MutexLock lock(mutex_);
  const auto it = entries_.find(context);
  if (it == entries_.end()) {
    early_[context].emplace_back(from, std::vector<std::byte>(bytes.begin(), bytes.end()));
    return;
  }
  deliver(it->second, from, bytes);
  send_letters(context, it->second);
}

void Agreements::deliver(Entry& entry, Rank from, std::span<const std::byte> bytes) {
  const auto place = std::ranges::find(entry.members, from) - entry.members.begin();
  const auto message = parse_agreement(bytes);
  if (message && place < std::ssize(entry.members)) {
    entry.agreement.receive(static_cast<Rank>(place), *message);
  }
}

void Agreements::observe(std::uint64_t context, const std::vector<Standing>& seen) {
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(context);
  entry.agreement.observe(seen);
  send_letters(context, entry);
}

void Agreements::withdraw(std::uint64_t context, const std::string& why) {
  MutexLock lock(mutex_);
  Entry& entry = entries_.at(context);
  entry.agreement.withdraw(why);
  send_letters(context, entry);
}

void Agreements::send_letters(std::uint64_t context, Entry& entry) {
  for (const Agreement::Letter& letter : entry.agreement.take_letters()) {
    send_(entry.members[letter.to], context, to_bytes(letter.message));
  }
}

Agreements::State Agreements::state(std::uint64_t context) {
  MutexLock lock(mutex_);
  const Entry& entry = entries_.at(context);
  const auto world_ranks = [&](const std::vector<Rank>& places) {
    std::vector<Rank> ranks;
    for (const Rank place : places) {
      ranks.push_back(entry.members[place]);
    }
    return ranks;
  };
  return {.outcome = entry.agreement.outcome(),
          .members = world_ranks(entry.agreement.members()),
          .payloads = entry.agreement.payloads(),
          .reason = entry.agreement.reason(),
          .missing = world_ranks(entry.agreement.missing())};
}

}  // namespace trireme::comm
