// When each task of a table runs, and how much of the time is idle.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "plan/pipeline_index.h"
#include "trireme/error.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

using Span = PipelineTiming::Span;

double duration_of(PipelineWork work, const PipelineDurations& durations) {
  switch (work) {
    case PipelineWork::Forward:
      return durations.forward;
    case PipelineWork::Backward:
      return durations.backward_input + durations.backward_weight;
    case PipelineWork::BackwardInput:
      return durations.backward_input;
    case PipelineWork::BackwardWeight:
      return durations.backward_weight;
    case PipelineWork::Update:
      return durations.update;
  }
  return 0;
}

void check_durations(std::span<const PipelineDurations> by_stage, int stages) {
  if (std::ssize(by_stage) != stages) {
    throw Error(ErrorKind::Usage,
                fmt::format("durations of {} stages; the table has {}", by_stage.size(), stages));
  }
  for (const PipelineDurations& d : by_stage) {
    for (const double number :
         {d.forward, d.backward_input, d.backward_weight, d.update, d.message}) {
      if (!std::isfinite(number) || number < 0) {
        throw Error(ErrorKind::Usage,
                    fmt::format("invalid duration {}; it must be finite and not negative", number));
      }
    }
  }
}

/// The idle share of `time`, which is at least the work done in it up to rounding.
double idle_share(double work, double time) {
  return time > 0 ? std::max(0.0, 1 - work / time) : 0;
}

/// The moments that delimit one rank's idle shares.
struct RankTimes {
  double start = 0;
  double end = 0;
  double work = 0;
  double first_gradient = 0;  ///< the end of its first whole backward
  double last_forward = 0;    ///< the start of its last Forward
};

RankTimes times_of(const std::vector<PipelineTask>& tasks, const std::vector<Span>& spans) {
  RankTimes times;
  times.start = std::numeric_limits<double>::infinity();
  times.first_gradient = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto [start, end] = spans[i];
    if (tasks[i].work == PipelineWork::Update && start == end) {
      continue;
    }
    times.start = std::min(times.start, start);
    times.end = std::max(times.end, end);
    times.work += end - start;
    if (tasks[i].work == PipelineWork::Forward) {
      times.last_forward = start;
    } else if (tasks[i].work != PipelineWork::BackwardInput) {
      times.first_gradient = std::min(times.first_gradient, end);
    }
  }
  times.start = std::min(times.start, times.end);  // a rank without tasks
  return times;
}

/// The work of all ranks between two moments.
double work_between(const std::vector<std::vector<Span>>& tasks, double from, double to) {
  double work = 0;
  for (const std::vector<Span>& rank : tasks) {
    for (const Span& span : rank) {
      work += std::max(0.0, std::min(span.end, to) - std::max(span.start, from));
    }
  }
  return work;
}

void add_shares(const PipelineTable& table, PipelineTiming& timing) {
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  double longest = 0;
  double steady_from = 0;
  double steady_to = std::numeric_limits<double>::infinity();
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    if (table.tasks[rank].empty()) {
      continue;
    }
    const RankTimes times = times_of(table.tasks[rank], timing.tasks[rank]);
    first = std::min(first, times.start);
    last = std::max(last, times.end);
    timing.work += times.work;
    if (times.end - times.start > longest) {
      longest = times.end - times.start;
      timing.rank_bubble = idle_share(times.work, longest);
    }
    steady_from = std::max(steady_from, times.first_gradient);
    steady_to = std::min(steady_to, times.last_forward);
  }
  const auto ranks = static_cast<double>(table.ranks);
  timing.makespan = last - first;
  timing.bubble = idle_share(timing.work, ranks * timing.makespan);
  if (steady_to > steady_from) {
    timing.steady_bubble = idle_share(work_between(timing.tasks, steady_from, steady_to),
                                      ranks * (steady_to - steady_from));
  }
}

/// Requires a table that verifies.
PipelineTiming time_stages(const PipelineTable& table,
                           std::span<const PipelineDurations> by_stage) {
  check_durations(by_stage, table.stages);
  PipelineTiming timing;
  for (const std::vector<PipelineTask>& tasks : table.tasks) {
    timing.tasks.emplace_back(tasks.size());
  }
  const auto span_at = [&](PipelinePlace place) -> Span& {
    return timing.tasks[place.rank][place.position];
  };
  const PipelineIndex index(table);
  walk_pipeline(table, index, [&](PipelinePlace place) {
    const PipelineTask& task = index.task(place);
    const PipelineDurations& durations = by_stage[task.stage];
    double start = place.position == 0 ? 0 : span_at({place.rank, place.position - 1}).end;
    index.for_each_input(task, [&](PipelinePlace input) {
      const double message = input.rank == place.rank ? 0 : durations.message;
      start = std::max(start, span_at(input).end + message);
    });
    span_at(place) = {start, start + duration_of(task.work, durations)};
  });
  add_shares(table, timing);
  return timing;
}

}  // namespace

PipelineDurations stage_durations(const PipelineTable& table, const PipelineDurations& of_a_rank) {
  const double share = static_cast<double>(table.ranks) / table.stages;
  PipelineDurations durations = of_a_rank;
  durations.forward *= share;
  durations.backward_input *= share;
  durations.backward_weight *= share;
  durations.update *= share;
  return durations;
}

PipelineTiming time_pipeline(const PipelineTable& table, const PipelineDurations& durations) {
  require_valid(table, ErrorKind::Usage, "the pipeline table is wrong");
  const IndexedVector<int, PipelineDurations> by_stage(table.stages, durations);
  return time_stages(table, by_stage);
}

PipelineTiming time_pipeline(const PipelineTable& table,
                             std::span<const PipelineDurations> by_stage) {
  require_valid(table, ErrorKind::Usage, "the pipeline table is wrong");
  return time_stages(table, by_stage);
}

std::int64_t count_messages(const PipelineTable& table) {
  std::int64_t count = 0;
  const PipelineIndex index(table);
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    for (const PipelineTask& task : table.tasks[rank]) {
      if (task.work == PipelineWork::Update) {
        continue;
      }
      index.for_each_input(task, [&](PipelinePlace input) {
        count += input.rank == static_cast<int>(rank) ? 0 : 1;
      });
    }
  }
  return count;
}

}  // namespace trireme
