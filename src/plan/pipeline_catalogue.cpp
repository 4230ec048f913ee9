// The schedules by name, a row each.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/pipeline_tables.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::array<PipelineSchedule, 3> kSchedules{{
    {"naive", "one micro-batch at a time; one rank works, all others wait", make_naive},
    {"gpipe", "all micro-batches forward, then all back", make_gpipe},
    {"1f1b", "one forward and one backward in turn; fewer activations than gpipe", make_1f1b},
}};

const PipelineSchedule& find_schedule(std::string_view name) {
  const auto* const found = std::ranges::find(kSchedules, name, &PipelineSchedule::name);
  if (found != kSchedules.end()) {
    return *found;
  }
  std::vector<std::string> names;
  for (const PipelineSchedule& schedule : kSchedules) {
    names.emplace_back(schedule.name);
  }
  const std::optional<std::string> nearest = nearest_word(name, names);
  throw Error(ErrorKind::Usage, fmt::format("'{}' is no pipeline schedule; {}", name,
                                            nearest ? fmt::format("did you mean {}?", *nearest)
                                                    : "use " + list_words(names, "or")));
}

void check_range(std::string_view what, int number, int most) {
  if (number < 1 || number > most) {
    throw Error(ErrorKind::Usage, fmt::format("{} {}; there can be 1 to {}", number, what, most));
  }
}

}  // namespace

std::span<const PipelineSchedule> pipeline_schedules() {
  return kSchedules;
}

PipelineTable make_pipeline(std::string_view schedule, const PipelineOptions& options) {
  const PipelineSchedule& row = find_schedule(schedule);
  check_range("ranks", options.ranks, kMostPipelineRanks);
  check_range("micro-batches", options.microbatches, kMostMicrobatches);
  return row.make(options);
}

}  // namespace trireme
