// Rules about groups: their members, and who may continue.
#include <map>
#include <set>

#include <fmt/format.h>

#include "comm/fault_fuzz/history.h"

namespace trireme::fault_fuzz {
namespace {

/// Whether members that share memory with the rank may know that it was declared dead. On a busy
/// machine that may happen without any fault.
bool may_be_given_up(const History& history, int m, const Event& done) {
  if (history.timing() == Judgement::Timing::Judged) {
    return history.truth().may_be_given_up(m, done.members, done.time);
  }
  for (int other = 0; other < history.scenario().ranks(); ++other) {
    if (contains(done.members, other) && history.truth().share_memory(m, other)) {
      return true;
    }
  }
  return false;
}

bool was_gone(const History& history, int m, double time) {
  const Event* leaving = history.find(m, Event::Kind::Leaving);
  return history.truth().killed_at(m) <= time || history.rank(m).ended_at <= time ||
         (leaving != nullptr && leaving->time <= time);
}

/// Members that had failed, or may have been known to be declared dead, do not count.
bool may_continue(const History& history, RankSet parent, const Event& done) {
  RankSet counted = parent;
  for (int m = 0; m < history.scenario().ranks(); ++m) {
    if (!contains(done.members, m) &&
        (was_gone(history, m, done.time) || may_be_given_up(history, m, done))) {
      counted &= ~(RankSet{1} << m);
    }
  }
  return is_majority(done.members, counted);
}

void check_barrier(const History& history, int r, const Event& done, Violations& found) {
  const Lineage group = history.lineage(r, done.generation);
  for (int m = 0; m < history.scenario().ranks(); ++m) {
    const Event* begun = history.find(m, Event::Kind::BarrierBegun, group);
    if (contains(done.members, m) && (begun == nullptr || begun->time > done.time)) {
      found.push_back(
          {Rule::Barrier,
           fmt::format("rank {} completed a barrier of {{{}}} that rank {} had not entered", r,
                       to_text_of_ranks(done.members), m)});
    }
  }
}

void check_majority(const History& history, int r, const Event& done, Violations& found) {
  const RankSet parent = history.members(r, done.generation - 1);
  if (!may_continue(history, parent, done)) {
    found.push_back(
        {Rule::Majority, fmt::format("rank {} continued at {:.2f} s in {{{}}}, a "
                                     "minority of {{{}}}",
                                     r, history.since_start(done.time),
                                     to_text_of_ranks(done.members), to_text_of_ranks(parent))});
  }
}

void check_members(const History& history, int r, const Event& shrunk, Violations& found) {
  const RankSet parent = history.members(r, shrunk.generation - 1);
  if ((shrunk.members & ~parent) != 0 || !contains(shrunk.members, r)) {
    found.push_back({Rule::Membership,
                     fmt::format("rank {}: shrink() of {{{}}} returned {{{}}}", r,
                                 to_text_of_ranks(parent), to_text_of_ranks(shrunk.members))});
  }
}

/// The groups that completed a barrier, by their parent.
using Children = std::map<Lineage, std::set<RankSet>>;

void check_one_group(const Children& children, Violations& found) {
  for (const auto& [parent, groups] : children) {
    std::string list;
    for (const RankSet group : groups) {
      list += fmt::format("{}{{{}}}", list.empty() ? "" : ", ", to_text_of_ranks(group));
    }
    if (groups.size() > 1) {
      found.push_back({Rule::OneGroup, fmt::format("the group {{{}}} continued as several: {}",
                                                   to_text_of_ranks(parent.back()), list)});
    }
  }
}

}  // namespace

void check_groups(const History& history, Violations& found) {
  Children children;
  for (int r = 0; r < history.scenario().ranks(); ++r) {
    for (const Event& event : history.rank(r).events) {
      if (event.kind == Event::Kind::Shrunk) {
        check_members(history, r, event, found);
      } else if (event.kind == Event::Kind::BarrierDone) {
        check_barrier(history, r, event, found);
        if (event.generation > 0) {
          check_majority(history, r, event, found);
          children[history.lineage(r, event.generation - 1)].insert(event.members);
        }
      }
    }
  }
  check_one_group(children, found);
}

}  // namespace trireme::fault_fuzz
