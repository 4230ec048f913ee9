// The tables with several stages per rank, or with the backward in two halves: interleaved 1F1B and the zero-bubble
// schedules. D is the number of ranks, N of micro-batches, K of stages per rank.
#include <algorithm>
#include <map>

#include "base/indexed_vector.h"
#include "plan/pipeline_tables.h"

namespace trireme {
namespace {

/// Splits the micro-batches into as many, nearly equal groups of at least D as possible; the larger ones come first.
/// One group if N < D.
IndexedVector<int, int> group_sizes(const PipelineOptions& options) {
  const int count = std::max(1, options.microbatches / options.ranks);
  IndexedVector<int, int> sizes(count, options.microbatches / count);
  for (int i = 0; i < options.microbatches % count; ++i) {
    ++sizes[i];
  }
  return sizes;
}

/// Group by group, and in each the rank's stages in order: first to last in the forward, last to first in the backward.
Tasks group_by_group(const PipelineOptions& options, PipelineWork work, int rank) {
  Tasks tasks;
  int begin = 0;
  for (const int size : group_sizes(options)) {
    for (int i = 0; i < options.chunks; ++i) {
      const int chunk = work == PipelineWork::Forward ? i : options.chunks - 1 - i;
      for (int m = begin; m < begin + size; ++m) {
        tasks.push_back({work, chunk * options.ranks + rank, m});
      }
    }
    begin += size;
  }
  return tasks;
}

void add_updates(const PipelineTable& table, int rank, Tasks& tasks) {
  for (int stage = 0; stage < table.stages; ++stage) {
    if (table.rank_of(0, stage) == rank) {
      tasks.push_back({PipelineWork::Update, stage, table.microbatches - 1});
    }
  }
}

/// A rank's list under construction: each work on each stage takes its micro-batches in order. Those past the table's
/// number are omitted, so that a pattern for many micro-batches also works for few.
class InOrder {
 public:
  explicit InOrder(int microbatches) : microbatches_(microbatches) {}

  void add(PipelineWork work, int stage) {
    const int m = next_[{work, stage}]++;
    if (m < microbatches_) {
      tasks_.push_back({work, stage, m});
    }
  }
  /// For how many micro-batches this is done, including omitted ones.
  [[nodiscard]] int count(PipelineWork work, int stage) { return next_[{work, stage}]; }
  [[nodiscard]] Tasks take() { return std::move(tasks_); }

 private:
  int microbatches_;
  std::map<std::pair<PipelineWork, int>, int> next_;
  Tasks tasks_;
};

constexpr PipelineWork kForward = PipelineWork::Forward;
constexpr PipelineWork kInput = PipelineWork::BackwardInput;
constexpr PipelineWork kWeight = PipelineWork::BackwardWeight;

/// The list of one rank of zb-v, without its Updates. `length` is the number of micro-batches that the pattern is
/// designed for.
Tasks v_list(const PipelineOptions& options, int rank, int length) {
  const int down = rank;                        // its stage on the path to the last rank
  const int up = 2 * options.ranks - 1 - rank;  // and on the path back
  const int behind = options.ranks - rank;
  InOrder list(options.microbatches);
  for (int i = 0; i < 2 * behind - 1; ++i) {
    list.add(kForward, down);
  }
  for (int i = 0; i < rank; ++i) {
    list.add(kForward, up);
    list.add(kForward, down);
  }
  for (int i = 0; i < behind; ++i) {
    list.add(kForward, up);
    list.add(kInput, up);
    list.add(kWeight, up);
  }
  while (list.count(kForward, up) < length) {
    if (list.count(kForward, down) < length) {
      list.add(kForward, down);
    }
    list.add(kInput, down);
    list.add(kWeight, down);
    list.add(kForward, up);
    list.add(kInput, up);
    list.add(kWeight, up);
  }
  // The gradients for other ranks first; those of the weights fill the gaps.
  for (int i = 0; i < rank; ++i) {
    list.add(kInput, down);
    list.add(kInput, up);
  }
  for (int i = 0; i < behind; ++i) {
    list.add(kInput, down);
    list.add(kWeight, down);
  }
  for (const int stage : {up, down}) {
    while (list.count(kWeight, stage) < length) {
      list.add(kWeight, stage);
    }
  }
  return list.take();
}

}  // namespace

// 1F1B where rank r has the stages r, r+D, r+2D, …, each a K-th as long, so that the pipeline fills K times as fast
// (Narayanan et al., Megatron-LM, 2021). Bubble (D-1)/(D-1+KN) for N >= D; more activations and K times the messages.
// Micro-batches alternate between stages in groups: of D if D divides N, else larger.
PipelineTable make_interleaved(const PipelineOptions& options) {
  PipelineTable table = empty_pipeline("interleaved", options, options.chunks);
  const int all = options.chunks * options.microbatches;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Tasks forwards = group_by_group(options, PipelineWork::Forward, rank);
    const Tasks backwards = group_by_group(options, PipelineWork::Backward, rank);
    // The first gradient is back after all stages but the last were filled with a group.
    const int ahead = std::min(
        all, 2 * (options.ranks - rank - 1) + (options.chunks - 1) * group_sizes(options).front());
    Tasks& tasks = table.tasks[rank];
    tasks.assign(forwards.begin(), forwards.begin() + ahead);
    for (int i = 0; i < all; ++i) {
      if (ahead + i < all) {
        tasks.push_back(forwards[ahead + i]);
      }
      tasks.push_back(backwards[i]);
    }
    add_updates(table, rank, tasks);
  }
  return table;
}

// 1F1B with the backward in two halves (Qi et al., Zero Bubble Pipeline Parallelism, 2024). The next rank waits only
// for the first half; rank i delays the second half by i micro-batches, which then fill the time in which 1F1B waits at
// the end. For N >= D the bubble is (D-1)(F+B-W) long instead of (D-1)(F+B+W), where F, B, W are the times of forward
// and the two halves, W <= F, B; every rank keeps at most D activations.
PipelineTable make_zb_h1(const PipelineOptions& options) {
  PipelineTable table = empty_pipeline("zb-h1", options, 1);
  for (int rank = 0; rank < options.ranks; ++rank) {
    InOrder list(options.microbatches);
    for (int i = 0; i < std::min(options.microbatches, options.ranks - rank - 1); ++i) {
      list.add(kForward, rank);
    }
    for (int m = 0; m < options.microbatches; ++m) {
      list.add(kForward, rank);
      list.add(kInput, rank);
      if (m >= rank) {
        list.add(kWeight, rank);
      }
    }
    while (list.count(kWeight, rank) < options.microbatches) {
      list.add(kWeight, rank);
    }
    Tasks& tasks = table.tasks[rank];
    tasks = list.take();
    add_updates(table, rank, tasks);
  }
  return table;
}

// Two stages per rank, down the ranks and up again like a V, backward in two halves (Qi et al., 2024). For N >= 2D-1
// and equal times of forward and the two halves no rank waits between its first task and its last; each keeps at most
// 2D activations of half a rank's layers, as much as 1F1B's first rank.
PipelineTable make_zb_v(const PipelineOptions& options) {
  PipelineTable table = empty_pipeline("zb-v", options, 2);
  std::vector<int>& ranks = table.placement.front();
  std::reverse(ranks.begin() + options.ranks, ranks.end());
  const int length = std::max(options.microbatches, 2 * options.ranks - 1);
  for (int rank = 0; rank < options.ranks; ++rank) {
    Tasks& tasks = table.tasks[rank];
    tasks = v_list(options, rank, length);
    add_updates(table, rank, tasks);
  }
  return table;
}

}  // namespace trireme
