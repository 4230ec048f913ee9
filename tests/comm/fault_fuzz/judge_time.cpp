// Rules about time: how long calls may take, and that unharmed ranks survive.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "comm/fault_fuzz/history.h"
#include "trireme/comm.h"

namespace trireme::fault_fuzz {
namespace {

// Limits in deadlines, to which slack is added.
constexpr double kNoticeDeath = 0.6;    // less than it would take by missing heartbeats
constexpr double kNoticeSilence = 1.6;  // the deadline, a heartbeat, and notifying others
constexpr double kShrink = 5;
constexpr double kLeave = 1.6;
constexpr double kLongestCall = 31;  // 30, for a live rank that does not join

/// A call of a rank, from when it was entered to when it ended.
struct CallSpan {
  int rank = 0;
  std::string_view what;
  int generation = 0;
  double begin = 0;
  double end = 0;
  std::string_view outcome;
};

class TimeRules {
 public:
  TimeRules(const History& history, Violations& found) : history_(history), found_(found) {}

  void check(int r) {
    for (const Event& event : history_.rank(r).events) {
      check_event(r, event);
    }
    if (history_.rank(r).waiting_since > 0) {
      check_open_call(r);
    }
  }

 private:
  [[nodiscard]] double limit(double deadlines) const {
    constexpr double kSlackSeconds = 0.25;
    return history_.deadlines(deadlines) + kSlackSeconds + 3 * history_.record().lateness;
  }

  void check_event(int r, const Event& event) {
    const CallSpan call{r,           event.call_name(), event.generation,
                        event.begin, event.time,        "returned"};
    switch (event.kind) {
      case Event::Kind::LongCall:
        return check_call(call);
      case Event::Kind::CallFailed:
        return check_call({r, call.what, call.generation, call.begin, call.end, "threw"});
      case Event::Kind::Shrunk:
        return check_shrink({r, "shrink", event.generation - 1, call.begin, call.end, "returned"});
      case Event::Kind::ShrinkFailed:
        return check_shrink({r, "shrink", call.generation, call.begin, call.end, "threw"});
      case Event::Kind::Left:
        return check_leaving({r, "leave", 0, call.begin, call.end, "returned"});
      default:
        return;
    }
  }

  /// The call that the rank was in when it ended.
  void check_open_call(int r) {
    const RankRecord& rank = history_.rank(r);
    const CallSpan call{r,
                        rank.waiting_in,
                        rank.waiting_generation,
                        rank.waiting_since,
                        std::min(rank.ended_at, history_.truth().killed_at(r)),
                        "had not returned"};
    if (call.what == "shrink") {
      check_shrink(call);
    } else if (call.what == "leave") {
      check_leaving(call);
    } else {
      check_call(call);
    }
  }

  void report(Rule rule, const CallSpan& call, double since, const std::string& why) {
    found_.push_back(
        {rule,
         fmt::format(
             "rank {}: {} in {{{}}} {} {:.2f} deadlines after {} (from {:.2f} s to {:.2f} s)",
             call.rank, call.what, to_text_of_ranks(history_.members(call.rank, call.generation)),
             call.outcome, (call.end - since) / history_.scenario().deadline, why,
             history_.since_start(call.begin), history_.since_start(call.end))});
  }

  void check_call(const CallSpan& call) {
    if (history_.truth().was_stopped(call.rank, call.begin, call.end)) {
      return;
    }
    if (call.end - call.begin > limit(kLongestCall)) {
      report(Rule::CallInTime, call, call.begin, "it was entered");
    }
    for (int peer = 0; peer < history_.scenario().ranks(); ++peer) {
      if (peer != call.rank && contains(history_.members(call.rank, call.generation), peer)) {
        check_notice(call, peer);
      }
    }
  }

  void check_notice(const CallSpan& call, int peer) {
    const auto loss = history_.truth().loss(call.rank, peer);
    if (!loss) {
      return;
    }
    const bool prompt = loss->notice == Truth::Loss::Notice::Prompt;
    const double since = std::max(call.begin, loss->time);
    if (call.end - since > limit(prompt ? kNoticeDeath : kNoticeSilence)) {
      report(Rule::CallInTime, call, since, fmt::format("rank {} was lost", peer));
    }
  }

  /// From when all who can join have joined.
  void check_shrink(const CallSpan& call) {
    const RankSet members = history_.members(call.rank, call.generation);
    double ready = std::max(call.begin, history_.truth().last_change(call.end));
    for (int m = 0; m < history_.scenario().ranks(); ++m) {
      if (m != call.rank && contains(members, m)) {
        ready = std::max(ready, came_or_went(call, m));
      }
    }
    if (call.end - ready > limit(kShrink)) {
      report(Rule::ShrinkInTime, call, ready, "all survivors were in it");
    }
  }

  /// When the member entered the same shrink(), or could no longer be waited for.
  [[nodiscard]] double came_or_went(const CallSpan& call, int member) const {
    const Lineage group = history_.lineage(call.rank, call.generation);
    double time = std::numeric_limits<double>::infinity();
    if (const auto loss = history_.truth().loss(call.rank, member)) {
      time = loss->time;
    }
    for (const Event* event : {history_.find(member, Event::Kind::Shrinking, group),
                               history_.find(member, Event::Kind::Leaving)}) {
      time = event == nullptr ? time : std::min(time, event->time);
    }
    return time;
  }

  void check_leaving(const CallSpan& call) {
    if (!history_.truth().was_stopped(call.rank, call.begin, call.end) &&
        call.end - call.begin > limit(kLeave)) {
      report(Rule::LeaveInTime, call, call.begin, "it was entered");
    }
  }

  const History& history_;
  Violations& found_;
};

/// Whether the event accuses a rank that should have been there. If one rank is late, so may be those that wait for it.
bool is_verdict(const History& history, const Event& event) {
  const auto is = [&](CommFault fault) { return event.fault == static_cast<int>(fault); };
  return event.kind == Event::Kind::CallFailed && !is(CommFault::Left) && !is(CommFault::Dead) &&
         !(is(CommFault::Late) && history.truth().was_any_late());
}

/// Verdicts on unharmed ranks.
void check_verdicts(const History& history, int r, Violations& found) {
  for (const Event& event : history.rank(r).events) {
    const RankSet innocent = event.culprits & history.truth().unharmed();
    if (is_verdict(history, event) && innocent != 0) {
      found.push_back(
          {Rule::Survival, fmt::format("rank {} at {:.2f} s gave up rank {}, which had no harm: {}",
                                       r, history.since_start(event.time),
                                       to_text_of_ranks(innocent), event.text.data())});
    }
  }
}

void check_survivor(const History& history, int r, Violations& found) {
  const Event* finished = history.find(r, Event::Kind::Finished);
  if (finished == nullptr) {
    const Event* failed = history.find(r, Event::Kind::ShrinkFailed);
    found.push_back({Rule::Survival,
                     fmt::format("rank {} had no harm but did not finish: {}", r,
                                 failed != nullptr ? failed->text.data() : "it hung or failed")});
    return;
  }
  for (int m = 0; m < history.scenario().ranks(); ++m) {
    const Event* other = history.find(m, Event::Kind::Finished);
    const bool had_ended = other != nullptr && other->time < finished->time;
    if (contains(history.truth().unharmed(), m) && !contains(finished->members, m) && !had_ended) {
      found.push_back({Rule::Survival,
                       fmt::format("rank {} finished without rank {}, which had no harm", r, m)});
    }
  }
}

}  // namespace

void check_times(const History& history, Violations& found) {
  for (int r = 0; r < history.scenario().ranks(); ++r) {
    TimeRules(history, found).check(r);
  }
}

void check_survival(const History& history, Violations& found) {
  for (int r = 0; r < history.scenario().ranks() && history.truth().unharmed_continue(); ++r) {
    if (contains(history.truth().unharmed(), r)) {
      check_verdicts(history, r, found);
      check_survivor(history, r, found);
    }
  }
}

}  // namespace trireme::fault_fuzz
