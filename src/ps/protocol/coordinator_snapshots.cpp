// The coordinator's snapshots: when a round begins, what is still missing, when it is complete.
#include <algorithm>
#include <map>
#include <utility>

#include "ps/protocol/coordinator.h"

namespace trireme::ps {
namespace {

/// A request may get lost, or its server may fail, or find that it cannot write.
constexpr Micros kRequestAgain = 1'000'000;

}  // namespace

void Coordinator::advance_snapshot(Micros now, Outbox& out) {
  const bool is_idle = !round_ || (round_->is_complete() && is_round_taken_);
  const bool is_due = options_.snapshot_every > 0 && now - round_begin_ >= options_.snapshot_every;
  if (is_idle && is_due) {
    begin_snapshot(now);
    parts_requested_ = now;
    request_parts(out);
  } else if (!is_idle && now - parts_requested_ >= kRequestAgain) {
    parts_requested_ = now;
    request_parts(out);
  }
}

void Coordinator::begin_snapshot(Micros now) {
  std::vector<TableClock> clocks;
  for (std::size_t i = 0; i < clocks_.size(); ++i) {
    const auto table = static_cast<TableId>(i);
    if (const auto last = slowest(table)) {
      clocks.push_back({table, *last});
    }
  }
  round_.emplace(next_snapshot_++, shards_.size(), std::move(clocks));
  is_round_taken_ = false;
  round_begin_ = now;
}

void Coordinator::request_parts(Outbox& out) const {
  std::map<NodeId, TakeSnapshot> requests;
  for (const ShardId shard : shards_.ids()) {
    if (round_->needs(shard)) {
      TakeSnapshot& request = requests[shards_[shard].view.chain.back().server];
      request.number = round_->number();
      request.shards.push_back(shard);
    }
  }
  for (auto& [server, request] : requests) {
    send(server, std::move(request), out);
  }
}

std::optional<SnapshotManifest> Coordinator::take_snapshot() {
  if (!round_ || !round_->is_complete() || std::exchange(is_round_taken_, true)) {
    return std::nullopt;
  }
  Epoch highest = 0;
  for (const ShardRecord& record : shards_) {
    highest = std::max(highest, record.view.epoch);
  }
  return round_->manifest(highest, table_entries());
}

}  // namespace trireme::ps
