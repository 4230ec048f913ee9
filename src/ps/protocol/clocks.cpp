#include "ps/protocol/clocks.h"

#include <algorithm>

namespace trireme::ps {

bool ClockTable::can_join() const {
  return std::ranges::all_of(clocks_, [](const auto& entry) { return entry.second.is_known; });
}

ClockCount ClockTable::join(NodeId worker, ClockCount own) {
  const ClockCount start = std::max(own, slowest().value_or(own));
  clocks_[worker] = {start, true};
  return start;
}

void ClockTable::rejoin(NodeId worker, ClockCount start) {
  clocks_[worker] = {start, false};
}

void ClockTable::advance(NodeId worker, ClockCount own) {
  Clock& clock = clocks_.at(worker);
  clock = {std::max(clock.count, own), true};
}

std::optional<ClockCount> ClockTable::slowest() const {
  std::optional<ClockCount> slowest;
  for (const auto& [worker, clock] : clocks_) {
    if (!clock.is_known) {
      return std::nullopt;
    }
    slowest = std::min(slowest.value_or(clock.count), clock.count);
  }
  return slowest;
}

}  // namespace trireme::ps
