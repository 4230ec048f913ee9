// A run as readable text.
#include <fmt/format.h>

#include "base/enum_names.h"
#include "comm/fault_fuzz/judge.h"

namespace trireme::fault_fuzz {
namespace {

std::string_view name_of(Event::Kind kind) {
  constexpr auto kNames = enum_names<Event::Kind>(
      "joined", "long call", "call failed", "shrinking", "shrunk", "shrink failed", "barrier begun",
      "barrier done", "finished", "wrong result", "unexpected", "leaving", "left");
  return kNames[kind];
}

std::string_view name_of(RankRecord::End end) {
  constexpr auto kNames = enum_names<RankRecord::End>("exited", "ended by an unexpected signal",
                                                      "killed", "hung", "stopped");
  return kNames[end];
}

std::string describe_event(const Event& event, double start) {
  std::string text =
      fmt::format("    {:7.3f}  {} [{}] {{{}}} step {}", event.time - start, name_of(event.kind),
                  event.generation, to_text_of_ranks(event.members), event.step);
  if (event.kind == Event::Kind::LongCall || event.kind == Event::Kind::CallFailed) {
    text += fmt::format(" {} since {:.3f}", event.call_name(), event.begin - start);
  }
  return text + (event.text[0] != '\0' ? fmt::format(": {}\n", event.text.data()) : "\n");
}

std::string describe_rank(int r, const RankRecord& rank, double start) {
  std::string text = fmt::format("  rank {}: {} at {:.3f} after {} steps", r, name_of(rank.end),
                                 rank.ended_at - start, rank.steps);
  if (rank.waiting_since > 0) {
    text += fmt::format(", in {} since {:.3f}", rank.waiting_in, rank.waiting_since - start);
  }
  text += "\n";
  for (const Event& event : rank.events) {
    text += describe_event(event, start);
  }
  return text;
}

}  // namespace

std::string to_text_of_ranks(RankSet ranks) {
  std::string text;
  for (int r = 0; r < static_cast<int>(kMaxRanks); ++r) {
    if (contains(ranks, r)) {
      text += fmt::format("{}{}", text.empty() ? "" : " ", r);
    }
  }
  return text;
}

std::string describe(const Record& record) {
  std::string text = fmt::format("  the machine was late by at most {:.3f} s\n", record.lateness);
  for (const Strike& strike : record.strikes) {
    text += fmt::format("  {} {} {} from {:.3f} to {:.3f}\n", to_text(strike.fault.kind),
                        strike.fault.hits_host() ? "host" : "rank", strike.fault.target,
                        strike.began_before - record.started_at,
                        strike.ended_after - record.started_at);
  }
  for (std::size_t r = 0; r < record.ranks.size(); ++r) {
    text += describe_rank(static_cast<int>(r), record.ranks[r], record.started_at);
  }
  return text;
}

}  // namespace trireme::fault_fuzz
