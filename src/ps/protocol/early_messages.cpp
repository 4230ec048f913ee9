#include "ps/protocol/early_messages.h"

#include <utility>
#include <variant>

namespace trireme::ps {
namespace {

/// A peer that invents epochs must not fill the memory.
constexpr std::size_t kMaxKept = 4096;
constexpr std::size_t kMaxKeptFloats = std::size_t{16} << 20;

template <class AnyMessage>
auto push_in(AnyMessage& message) {
  auto* const forward = std::get_if<Forward>(&message);
  return forward != nullptr ? &forward->push : std::get_if<Push>(&message);
}

std::size_t floats_in(const Message& message) {
  const Push* const push = push_in(message);
  return push != nullptr ? push->values.size() : 0;
}

}  // namespace

std::optional<EarlyMessages::ShardEpoch> EarlyMessages::named_by(const Message& message) {
  return std::visit(
      []<class M>(const M& m) -> std::optional<ShardEpoch> {
        if constexpr (std::is_same_v<M, Push> || std::is_same_v<M, Pull> ||
                      std::is_same_v<M, Resume>) {
          return ShardEpoch{m.shard, m.epoch};
        } else {
          return std::nullopt;
        }
      },
      message);
}

std::optional<EarlyMessages::ShardTable> EarlyMessages::table_in(const Message& message) {
  if (const Push* const push = push_in(message)) {
    return ShardTable{push->shard, push->table};
  }
  if (const Pull* const pull = std::get_if<Pull>(&message)) {
    return ShardTable{pull->shard, pull->table};
  }
  return std::nullopt;
}

void EarlyMessages::keep(ShardId shard, const Envelope& envelope) {
  if (std::holds_alternative<Resume>(envelope.message)) {
    forget_resume(shard, envelope.from);
  }
  const std::size_t floats = floats_in(envelope.message);
  if (count_ >= kMaxKept || floats_ + floats > kMaxKeptFloats) {
    return;  // the sender will repeat it
  }
  ++count_;
  floats_ += floats;
  Envelope& kept = kept_[shard].emplace_back(envelope);
  if (Push* const push = push_in(kept.message)) {
    push->values.retain();
  }
}

/// Only the last one counts.
void EarlyMessages::forget_resume(ShardId shard, NodeId from) {
  if (const auto at = kept_.find(shard); at != kept_.end()) {
    count_ -= std::erase_if(at->second, [&](const Envelope& kept) {
      return kept.from == from && std::holds_alternative<Resume>(kept.message);
    });
  }
}

std::vector<ShardId> EarlyMessages::shards() const {
  std::vector<ShardId> shards;
  for (const auto& [shard, kept] : kept_) {
    shards.push_back(shard);
  }
  return shards;
}

std::vector<Envelope> EarlyMessages::take(ShardId shard) {
  const auto at = kept_.find(shard);
  if (at == kept_.end()) {
    return {};
  }
  std::vector<Envelope> taken = std::move(at->second);
  kept_.erase(at);
  count_ -= taken.size();
  for (const Envelope& envelope : taken) {
    floats_ -= floats_in(envelope.message);
  }
  return taken;
}

}  // namespace trireme::ps
