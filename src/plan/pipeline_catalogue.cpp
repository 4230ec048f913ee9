// The schedules by name, one row each.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "plan/pipeline_ranges.h"
#include "plan/pipeline_tables.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/valid.h"

namespace trireme {
namespace {

constexpr int kMaxChunks = 64;

constexpr std::array<PipelineSchedule, 11> kSchedules{{
    {"naive", "one micro-batch at a time; one rank works, all others wait", "(D-1)/D", make_naive},
    {.name = "gpipe",
     .description = "all micro-batches forward, then all back",
     .bubble = "(D-1)/(D-1+N)",
     .make = make_gpipe,
     .forward_first = true},
    {.name = kTokenSchedule,
     .description = "gpipe over slices of each sequence instead of micro-batches; not for training",
     .bubble = "(D-1)/(D-1+N)",
     .make = make_terapipe,
     .forward_first = true},
    {"pipedream", "never waits for an update; old weights are kept for the backward",
     "0 once it is full", make_pipedream},
    {"pipedream-2bw", "the same with two versions of the weights only", "0 once it is full",
     make_pipedream_2bw},
    {"ampnet", "each stage updates independently after a few micro-batches", "0 once it is full",
     make_ampnet},
    {"1f1b", "alternates one forward and one backward; fewer activations than gpipe",
     "(D-1)/(D-1+N)", make_1f1b},
    {.name = "interleaved",
     .description = "1f1b with several stages per rank; fills faster",
     .bubble = "(D-1)/(D-1+KN)",
     .make = make_interleaved,
     .has_chunks = true},
    {"zb-h1", "1f1b with gradients of weights deferred into the bubble", "(D-1)(F+B-W) in a rank",
     make_zb_h1},
    {"zb-v", "two stages per rank in a V; no rank waits if all kinds of work take equally long",
     "0 in a rank if F = B = W", make_zb_v},
    {.name = "chimera",
     .description = "two copies of the model in opposite directions",
     .bubble = "(D-2)/(D-2+2N) if F = B+W",
     .make = make_chimera,
     .ranks_multiple = 2},
}};

}  // namespace

std::span<const PipelineSchedule> pipeline_schedules() {
  return kSchedules;
}

const PipelineSchedule& find_pipeline_schedule(std::string_view name) {
  const auto* const found = std::ranges::find(kSchedules, name, &PipelineSchedule::name);
  if (found != kSchedules.end()) {
    return *found;
  }
  std::vector<std::string> names;
  names.reserve(kSchedules.size());
  for (const PipelineSchedule& schedule : kSchedules) {
    names.emplace_back(schedule.name);
  }
  throw Error(ErrorKind::Usage, unknown_name("pipeline schedule", name, names));
}

std::vector<std::string> problems(const PipelineSchedule& schedule,
                                  const PipelineOptions& options) {
  const int chunks = schedule.has_chunks ? options.chunks : 1;
  if (std::vector<std::string> found =
          range_problems({{"stages", options.ranks, kMaxPipelineRanks},
                          {"micro-batches", options.microbatches, kMaxMicrobatches},
                          {"chunks", chunks, kMaxChunks}});
      !found.empty()) {
    return found;
  }
  if (options.ranks % schedule.ranks_multiple != 0) {
    const int below = options.ranks - options.ranks % schedule.ranks_multiple;
    return {fmt::format("the number of stages of {} must be a multiple of {}, such as {}; not {}",
                        schedule.name, schedule.ranks_multiple, below + schedule.ranks_multiple,
                        options.ranks)};
  }
  const std::int64_t pairs = std::int64_t{options.ranks} * chunks * options.microbatches;
  if (std::cmp_greater(pairs, kMaxPipelineTasks / 4)) {
    return {fmt::format("{} stages times {} micro-batches are more than a table holds, {}",
                        options.ranks * chunks, options.microbatches, kMaxPipelineTasks / 4)};
  }
  return {};
}

PipelineTable make_pipeline(std::string_view schedule, const PipelineOptions& options) {
  const PipelineSchedule& row = find_pipeline_schedule(schedule);
  throw_first(problems(row, options), ErrorKind::Usage, "");
  return row.make(options);
}

}  // namespace trireme
