#include "ps/protocol/early_messages.h"

#include <utility>
#include <variant>

namespace trireme::ps {
namespace {

/// A peer that invents epochs must not fill the memory.
constexpr std::size_t kMaxKept = 4096;
constexpr std::size_t kMaxKeptFloats = std::size_t{16} << 20;

std::size_t floats_in(const Message& message) {
  const Push* const push = std::get_if<Push>(&message);
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

void EarlyMessages::keep(ShardId shard, const Envelope& envelope) {
  const std::size_t floats = floats_in(envelope.message);
  if (count_ >= kMaxKept || floats_ + floats > kMaxKeptFloats) {
    return;  // the sender will repeat it
  }
  ++count_;
  floats_ += floats;
  Envelope& kept = kept_[shard].emplace_back(envelope);
  if (Push* const push = std::get_if<Push>(&kept.message)) {
    push->values.retain();
  }
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
