#include "comm/fault_fuzz/judge.h"

#include <fmt/format.h>

#include "base/enum_names.h"
#include "comm/fault_fuzz/history.h"
#include "trireme/comm.h"

namespace trireme::fault_fuzz {
namespace {

constexpr auto kRuleNames =
    enum_names<Rule>("right-result", "no-crash", "one-group", "membership", "barrier", "majority",
                     "call-in-time", "shrink-in-time", "leave-in-time", "survival", "nothing-left");

bool is_false_accusation(const Event& event) {
  return event.fault == static_cast<int>(CommFault::Mismatch) ||
         event.fault == static_cast<int>(CommFault::Corrupt);
}

void check_event(const History& history, int r, const Event& event, Violations& found) {
  const bool joined = history.find(r, Event::Kind::Joined) != nullptr;
  if (event.kind == Event::Kind::WrongResult) {
    found.push_back({Rule::RightResult, fmt::format("rank {}: {}", r, event.text.data())});
  } else if (event.kind == Event::Kind::Unexpected &&
             (joined || history.timing() == Judgement::Timing::Judged)) {
    found.push_back({Rule::NoCrash, fmt::format("rank {}: {}", r, event.text.data())});
  } else if (is_false_accusation(event)) {
    found.push_back(
        {Rule::NoCrash, fmt::format("rank {} accuses rank {}: {}", r,
                                    to_text_of_ranks(event.culprits), event.text.data())});
  }
}

}  // namespace

void check_endings(const History& history, Violations& found) {
  for (int r = 0; r < history.scenario().ranks(); ++r) {
    if (history.rank(r).end == RankRecord::End::Signaled) {
      found.push_back(
          {Rule::NoCrash, fmt::format("rank {} ended by signal {}", r, history.rank(r).status)});
    }
    for (const Event& event : history.rank(r).events) {
      check_event(history, r, event, found);
    }
  }
  for (const std::string& what : history.record().left_behind) {
    found.push_back({Rule::NothingLeft, fmt::format("{} was left behind", what)});
  }
}

std::string_view to_text(Rule rule) {
  return kRuleNames[rule];
}

Judgement judge(const Scenario& scenario, const Record& record) {
  const History history(scenario, record);
  Judgement judgement{.timing = history.timing()};
  check_endings(history, judgement.violations);
  check_groups(history, judgement.violations);
  if (judgement.timing == Judgement::Timing::Judged) {
    check_times(history, judgement.violations);
    check_survival(history, judgement.violations);
  }
  return judgement;
}

}  // namespace trireme::fault_fuzz
