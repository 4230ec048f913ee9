// Where in a table each task is, and its dependencies. Callable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/pipeline.h"

namespace trireme {

/// A place in a table: the rank and the position in its list.
struct PipelinePlace {
  int rank = -1;
  int position = -1;
  [[nodiscard]] bool exists() const { return rank >= 0; }
};

/// Finds tasks. The numbers of the table must be in range; of duplicate tasks it knows the last.
/// The table must outlive it.
class PipelineIndex {
 public:
  explicit PipelineIndex(const PipelineTable& table);

  [[nodiscard]] PipelinePlace forward(int stage, int microbatch) const {
    return places_[0][key(stage, microbatch)];
  }
  /// The task that passes the gradient to the previous stage: a Backward or a BackwardInput.
  [[nodiscard]] PipelinePlace backward_input(int stage, int microbatch) const {
    return places_[1][key(stage, microbatch)];
  }
  /// The task that completes the gradient of the weights: a Backward or a BackwardWeight.
  [[nodiscard]] PipelinePlace backward_weight(int stage, int microbatch) const {
    return places_[2][key(stage, microbatch)];
  }
  /// The copy of the micro-batch's Forward on the first stage; 0 if there is none.
  [[nodiscard]] int copy_of(int microbatch) const;

  [[nodiscard]] const PipelineTask& task(PipelinePlace place) const {
    return table_.tasks[place.rank][place.position];
  }

  /// Calls visit(PipelinePlace) for each dependency of this task, except the previous one in its
  /// rank's list. Skips tasks that the table lacks.
  template <class Visitor>
  void for_each_input(const PipelineTask& task, Visitor&& visit) const {
    const auto tell = [&](PipelinePlace place) {
      if (place.exists()) {
        visit(place);
      }
    };
    switch (task.work) {
      case PipelineWork::Forward:
        if (task.stage > 0) {
          tell(forward(task.stage - 1, task.microbatch));
        }
        break;
      case PipelineWork::Backward:
      case PipelineWork::BackwardInput:
        tell(forward(task.stage, task.microbatch));
        if (task.stage + 1 < table_.stages) {
          tell(backward_input(task.stage + 1, task.microbatch));
        }
        break;
      case PipelineWork::BackwardWeight:
        tell(backward_input(task.stage, task.microbatch));
        break;
      case PipelineWork::Update:
        for (int m = first_included(task); m <= task.microbatch; ++m) {
          tell(backward_weight(task.stage, m));
        }
        break;
    }
  }

  /// The first micro-batch that this Update includes.
  [[nodiscard]] int first_included(const PipelineTask& update) const;
  /// How many Updates of the task's stage include only earlier micro-batches.
  [[nodiscard]] int updates_before(const PipelineTask& task) const;

 private:
  [[nodiscard]] std::int64_t key(int stage, int microbatch) const {
    return std::int64_t{stage} * table_.microbatches + microbatch;
  }
  [[nodiscard]] std::int64_t stage_key(const PipelineTask& task) const {
    return std::int64_t{task.copy} * table_.stages + task.stage;
  }
  [[nodiscard]] const std::vector<int>& updates_of(const PipelineTask& task) const {
    return updates_[stage_key(task)];
  }

  const PipelineTable& table_;
  std::array<IndexedVector<std::int64_t, PipelinePlace>, 3> places_;  ///< by key(): of each kind
  /// By stage_key(): micro-batches, ascending.
  IndexedVector<std::int64_t, std::vector<int>> updates_;
};

/// Visits every task in topological order, with visit(PipelinePlace). Returns the number of tasks
/// done on each rank; fewer than all on a deadlock.
template <class Visitor>
IndexedVector<int, int> walk_pipeline(const PipelineTable& table, const PipelineIndex& index,
                                      Visitor&& visit) {
  IndexedVector<int, int> done(table.tasks.size(), 0);
  const auto is_ready = [&](const PipelineTask& task) {
    bool ready = true;
    index.for_each_input(
        task, [&](PipelinePlace input) { ready = ready && input.position < done[input.rank]; });
    return ready;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const int rank : done.ids()) {
      const std::vector<PipelineTask>& tasks = table.tasks[rank];
      int& next = done[rank];
      while (next < static_cast<int>(tasks.size()) && is_ready(tasks[next])) {
        visit(PipelinePlace{rank, next});
        ++next;
        moved = true;
      }
    }
  }
  return done;
}

}  // namespace trireme
