#include "comm/fault_fuzz/history.h"

#include <algorithm>

namespace trireme::fault_fuzz {

History::History(const Scenario& scenario, const Record& record)
    : scenario_(scenario), record_(record), truth_(scenario, record) {
  for (const RankRecord& rank : record.ranks) {
    Lineage& lineage = lineages_.emplace_back(Lineage{truth_.everyone()});
    for (const Event& event : rank.events) {
      if (event.kind == Event::Kind::Shrunk) {
        lineage.push_back(event.members);
      }
    }
  }
}

Judgement::Timing History::timing() const {
  constexpr double kQuiet = 1.0 / 3;
  return record_.lateness <= deadlines(kQuiet) ? Judgement::Timing::Judged
                                               : Judgement::Timing::MachineBusy;
}

Lineage History::lineage(int r, int generation) const {
  const Lineage& all = lineages_[r];
  const auto count = std::min(all.size(), static_cast<std::size_t>(generation) + 1);
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

const Event* History::find(int r, Event::Kind kind) const {
  const auto& events = rank(r).events;
  const auto it = std::ranges::find(events, kind, &Event::kind);
  return it == events.end() ? nullptr : &*it;
}

const Event* History::find(int r, Event::Kind kind, const Lineage& group) const {
  for (const Event& event : rank(r).events) {
    if (event.kind == kind && lineage(r, event.generation) == group) {
      return &event;
    }
  }
  return nullptr;
}

}  // namespace trireme::fault_fuzz
