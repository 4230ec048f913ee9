// The tables with one stage per rank: naive, GPipe, TeraPipe, 1F1B, PipeDream's two, and AMPNet. D is the number of
// ranks, N of micro-batches; a rank's number is also its stage's.
#include "plan/pipeline_tables.h"

#include <algorithm>

namespace trireme {
namespace {

/// The list of a rank that has `ahead` micro-batches between forward and backward before it alternates between the two.
/// Adds an Update after every `period` micro-batches, and after the last.
Tasks in_turn(const PipelineOptions& options, int stage, int ahead, int period) {
  Tasks tasks;
  const int n = options.microbatches;
  const int warm_up = std::min(ahead, n);
  for (int m = 0; m < warm_up; ++m) {
    tasks.push_back({PipelineWork::Forward, stage, m});
  }
  for (int m = 0; m < n; ++m) {
    if (warm_up + m < n) {
      tasks.push_back({PipelineWork::Forward, stage, warm_up + m});
    }
    tasks.push_back({PipelineWork::Backward, stage, m});
    if ((m + 1) % period == 0 || m + 1 == n) {
      tasks.push_back({PipelineWork::Update, stage, m});
    }
  }
  return tasks;
}

/// Every rank runs as many forwards ahead as there are ranks after it.
PipelineTable one_forward_one_backward(std::string name, const PipelineOptions& options,
                                       int period) {
  PipelineTable table = empty_pipeline(std::move(name), options, 1);
  for (int rank = 0; rank < options.ranks; ++rank) {
    table.tasks[rank] = in_turn(options, rank, options.ranks - rank - 1, period);
  }
  return table;
}

/// All micro-batches forward, then all backward, the last first.
PipelineTable all_forward_then_back(std::string name, const PipelineOptions& options) {
  PipelineTable table = empty_pipeline(std::move(name), options, 1);
  for (int rank = 0; rank < options.ranks; ++rank) {
    Tasks& tasks = table.tasks[rank];
    for (int m = 0; m < options.microbatches; ++m) {
      tasks.push_back({PipelineWork::Forward, rank, m});
    }
    for (int m = options.microbatches; m-- > 0;) {
      tasks.push_back({PipelineWork::Backward, rank, m});
    }
    tasks.push_back({PipelineWork::Update, rank, options.microbatches - 1});
  }
  return table;
}

}  // namespace

PipelineTable empty_pipeline(std::string name, const PipelineOptions& options, int chunks) {
  PipelineTable table;
  table.name = std::move(name);
  table.ranks = options.ranks;
  table.stages = options.ranks * chunks;
  table.microbatches = options.microbatches;
  table.tasks.resize(options.ranks);
  std::vector<int>& ranks = table.placement.emplace_back();
  for (int stage = 0; stage < table.stages; ++stage) {
    ranks.push_back(stage % options.ranks);
  }
  return table;
}

// One micro-batch at a time: while one rank works, all others wait. Bubble (D-1)/D.
PipelineTable make_naive(const PipelineOptions& options) {
  PipelineTable table = empty_pipeline("naive", options, 1);
  for (int rank = 0; rank < options.ranks; ++rank) {
    table.tasks[rank] = in_turn(options, rank, 0, options.microbatches);
  }
  return table;
}

// All micro-batches forward, then all backward, the last first (Huang et al., GPipe, 2019). Bubble (D-1)/(D-1+N); a
// rank keeps the activations of N micro-batches.
PipelineTable make_gpipe(const PipelineOptions& options) {
  return all_forward_then_back("gpipe", options);
}

// GPipe within sequences: the table's micro-batches are slices of the tokens (Li et al., TeraPipe, 2021). Under a
// causal mask a slice needs the keys and values of those before it, and the gradients that flow into its own keys and
// values come from those after it: forward in order, backward in reverse. Bubble (D-1)/(D-1+N) even for one sequence.
PipelineTable make_terapipe(const PipelineOptions& options) {
  return all_forward_then_back("terapipe", options);
}

// As many micro-batches forward as there are ranks after this one, then alternating one forward and one backward
// (PipeDream-Flush). The bubble of GPipe, but rank i keeps at most D-i activations.
PipelineTable make_1f1b(const PipelineOptions& options) {
  return one_forward_one_backward("1f1b", options, options.microbatches);
}

// 1F1B that never stops for an update: each gradient is applied immediately, and a micro-batch's backward uses the
// weights that its forward read (Narayanan et al., PipeDream, 2019). No bubble except at the ends; rank i keeps at most
// D-i weight versions.
PipelineTable make_pipedream(const PipelineOptions& options) {
  PipelineTable table = one_forward_one_backward("pipedream", options, 1);
  table.weights = WeightVersions::Newest;
  return table;
}

// Stages update independently, each time they have summed the gradients of a few micro-batches, here half as many as
// ranks but at least two; backward passes come before new forward passes (Gaunt et al., AMPNet, 2017). With equal times
// that is 1F1B with a longer period. AMPNet keeps no older versions, so its backward may read weights that its forward
// did not; here it reads those of its forward, like all schedules.
PipelineTable make_ampnet(const PipelineOptions& options) {
  PipelineTable table = one_forward_one_backward("ampnet", options, std::max(2, options.ranks / 2));
  table.weights = WeightVersions::Newest;
  return table;
}

// As PipeDream, but the gradients of D micro-batches are summed before they are applied, and every stage reads the second
// newest version: two versions suffice (Narayanan et al., PipeDream-2BW, 2021).
PipelineTable make_pipedream_2bw(const PipelineOptions& options) {
  PipelineTable table = one_forward_one_backward("pipedream-2bw", options, options.ranks);
  table.weights = WeightVersions::Previous;
  return table;
}

}  // namespace trireme
