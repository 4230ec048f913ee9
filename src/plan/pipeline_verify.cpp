// The verifier of pipeline tables: first that the numbers are in range, then each micro-batch on
// each stage, then each stage's Updates in its rank's order, then the whole for deadlocks.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "plan/pipeline_index.h"
#include "plan/pipeline_ranges.h"
#include "trireme/pipeline.h"

namespace trireme {
namespace {

constexpr std::size_t kMaxErrors = 8;

std::vector<std::string> stage_problems(const PipelineTable& table) {
  if (std::ssize(table.placement) != table.copies) {
    return {fmt::format("{} copies, but {} lists of where their stages are", table.copies,
                        table.placement.size())};
  }
  for (const std::vector<int>& ranks : table.placement) {
    if (std::ssize(ranks) != table.stages) {
      return {fmt::format("{} stages, but the ranks of {}", table.stages, ranks.size())};
    }
    for (const int rank : ranks) {
      if (rank < 0 || rank >= table.ranks) {
        return {fmt::format("a stage is on rank {}; there are 0 to {}", rank, table.ranks - 1)};
      }
    }
  }
  return {};
}

std::vector<std::string> task_problems(const PipelineTable& table) {
  const auto in_range = [](int number, int end) { return number >= 0 && number < end; };
  for (std::size_t rank = 0; rank < table.tasks.size(); ++rank) {
    for (const PipelineTask& task : table.tasks[rank]) {
      if (!in_range(task.stage, table.stages) || !in_range(task.microbatch, table.microbatches) ||
          !in_range(task.copy, table.copies)) {
        return {fmt::format("{} on rank {} is outside {} stages, {} micro-batches, {} copies",
                            to_text(task), rank, table.stages, table.microbatches, table.copies)};
      }
    }
  }
  return {};
}

/// Why the value is not a table at all.
std::vector<std::string> form_problems(const PipelineTable& table) {
  if (std::vector<std::string> found =
          range_problems({{"ranks", table.ranks, kMaxPipelineRanks},
                          {"stages", table.stages, kMaxPipelineStages},
                          {"copies", table.copies, kMaxPipelineRanks},
                          {"micro-batches", table.microbatches, kMaxMicrobatches}});
      !found.empty()) {
    return found;
  }
  if (std::cmp_greater(std::int64_t{table.stages} * table.microbatches, kMaxPipelineTasks)) {
    return {fmt::format("{} stages times {} micro-batches are more than {}", table.stages,
                        table.microbatches, kMaxPipelineTasks)};
  }
  if (std::ssize(table.tasks) != table.ranks) {
    return {fmt::format("{} ranks, but {} lists of tasks", table.ranks, table.tasks.size())};
  }
  std::vector<std::string> found = stage_problems(table);
  return found.empty() ? task_problems(table) : found;
}

class PipelineVerifier {
 public:
  explicit PipelineVerifier(const PipelineTable& table) : table_(table), index_(table) {}

  std::vector<std::string> run() {
    check_ranks();
    check_counts();
    check_copies();
    check_updates();
    check_circle();
    return std::move(errors_);
  }

 private:
  template <class... Values>
  void fail(fmt::format_string<Values...> format, Values&&... values) {
    if (errors_.size() < kMaxErrors) {
      errors_.push_back(fmt::format(format, std::forward<Values>(values)...));
    }
  }

  void check_ranks() {
    for (std::size_t rank = 0; rank < table_.tasks.size(); ++rank) {
      for (const PipelineTask& task : table_.tasks[rank]) {
        const int home = table_.rank_of(task.copy, task.stage);
        if (home != static_cast<int>(rank)) {
          fail("{} is on rank {}, but stage {} of copy {} is on rank {}", to_text(task), rank,
               task.stage, task.copy, home);
        }
      }
    }
  }

  /// How often a micro-batch goes through a stage, by any work but Update.
  using PassCounts = IndexedArray<PipelineWork, int, 4>;

  /// Every micro-batch once forward and once backward through every stage.
  void check_counts() {
    IndexedVector<std::int64_t, PassCounts> counts(std::int64_t{table_.stages} *
                                                   table_.microbatches);
    for (const std::vector<PipelineTask>& tasks : table_.tasks) {
      for (const PipelineTask& task : tasks) {
        if (task.work != PipelineWork::Update) {
          ++counts[key(task.stage, task.microbatch)].at(task.work);
        }
      }
    }
    for (int stage = 0; stage < table_.stages; ++stage) {
      for (int m = 0; m < table_.microbatches; ++m) {
        check_count(stage, m, counts[key(stage, m)]);
      }
    }
  }

  void check_count(int stage, int microbatch, const PassCounts& counts) {
    const auto [forward, whole, input, weight] = counts.items;
    if (forward != 1) {
      fail("micro-batch {} goes forward through stage {} {} times, not once", microbatch, stage,
           forward);
    }
    if (whole + input != 1 || whole + weight != 1) {
      fail(
          "micro-batch {} goes back through stage {} by {} Backward, {} BackwardInput and {} "
          "BackwardWeight, not by the first or the other two once",
          microbatch, stage, whole, input, weight);
    }
  }

  /// Checks that a micro-batch stays on the copy of its first Forward.
  void check_copies() {
    for (const std::vector<PipelineTask>& tasks : table_.tasks) {
      for (const PipelineTask& task : tasks) {
        if (task.work != PipelineWork::Update && task.copy != index_.copy_of(task.microbatch)) {
          fail("{} is on copy {}, but micro-batch {} begins on copy {}", to_text(task), task.copy,
               task.microbatch, index_.copy_of(task.microbatch));
        }
      }
    }
  }

  /// The state of one of a rank's stages while going through the rank's list.
  struct StageState {
    std::set<int> under_way;   ///< forward done, gradient of the weights not
    std::set<int> gradients;   ///< in the sum that the next Update applies
    std::vector<int> updates;  ///< the micro-batches of the Updates so far
  };

  void check_updates() {
    const std::vector<int>* first = nullptr;  // the Updates of the first stage checked
    std::map<std::pair<int, int>, StageState> states;
    for (const std::vector<PipelineTask>& tasks : table_.tasks) {
      for (const PipelineTask& task : tasks) {
        step(states[{task.copy, task.stage}], task);
      }
    }
    for (int copy = 0; copy < table_.copies; ++copy) {
      for (int stage = 0; stage < table_.stages; ++stage) {
        const StageState& state = states[{copy, stage}];
        first = first == nullptr ? &state.updates : first;
        check_end(copy, stage, state, *first);
      }
    }
  }

  void step(StageState& state, const PipelineTask& task) {
    switch (task.work) {
      case PipelineWork::Forward:
        state.under_way.insert(task.microbatch);
        if (table_.weights == WeightVersions::Previous) {
          check_previous(state, task);
        }
        break;
      case PipelineWork::Backward:
      case PipelineWork::BackwardWeight:
        state.under_way.erase(task.microbatch);
        state.gradients.insert(task.microbatch);
        break;
      case PipelineWork::BackwardInput:
        break;
      case PipelineWork::Update:
        check_update(state, task);
        break;
    }
  }

  void check_update(StageState& state, const PipelineTask& task) {
    if (!state.updates.empty() && state.updates.back() >= task.microbatch) {
      fail("{} comes after the Update of micro-batch {}", to_text(task), state.updates.back());
    }
    const int begin = index_.first_included(task);
    for (int m = begin; m <= task.microbatch; ++m) {
      if (index_.copy_of(m) == task.copy && state.gradients.erase(m) == 0) {
        fail("{} comes before the gradient of micro-batch {}, which it includes", to_text(task), m);
      }
    }
    if (!state.gradients.empty()) {
      fail("{} comes after the gradient of micro-batch {}, which it does not include",
           to_text(task), *state.gradients.begin());
    }
    if (table_.weights == WeightVersions::Single && !state.under_way.empty()) {
      fail(
          "{} comes while micro-batch {} is between its forward and its backward; with a single "
          "version of the weights it may not",
          to_text(task), *state.under_way.begin());
    }
    state.gradients.clear();
    state.updates.push_back(task.microbatch);
  }

  /// The version that the micro-batch reads must exist: its group's number minus one.
  void check_previous(const StageState& state, const PipelineTask& task) {
    const int group = index_.updates_before(task);
    if (group - 1 > static_cast<int>(state.updates.size())) {
      fail("{} reads version {} of the weights, but comes after {} Updates only", to_text(task),
           group - 1, state.updates.size());
    }
  }

  void check_end(int copy, int stage, const StageState& state, const std::vector<int>& first) {
    if (state.updates.empty() || state.updates.back() != table_.microbatches - 1) {
      fail("stage {} of copy {} has no Update that includes the last micro-batch, {}", stage, copy,
           table_.microbatches - 1);
    } else if (state.updates != first) {
      fail("stage {} of copy {} updates at other micro-batches than stage 0 of copy 0", stage,
           copy);
    }
  }

  /// Simulates the table; on a deadlock, reports the cycle of waiting tasks.
  void check_circle() {
    const IndexedVector<int, int> done = walk_pipeline(table_, index_, [](PipelinePlace) {});
    for (const int rank : done.ids()) {
      if (done[rank] < std::ssize(table_.tasks[rank])) {
        tell_circle(done, rank);
        return;
      }
    }
  }

  /// The first input of a rank's next task that is not done. One exists on a deadlock.
  [[nodiscard]] PipelinePlace awaited(const IndexedVector<int, int>& done, int rank) const {
    PipelinePlace missing;
    const PipelinePlace next{rank, done[rank]};
    index_.for_each_input(index_.task(next), [&](PipelinePlace input) {
      if (!missing.exists() && input.position >= done[input.rank]) {
        missing = input;
      }
    });
    return missing;
  }

  void tell_circle(const IndexedVector<int, int>& done, int rank) {
    std::vector<int> path;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = awaited(done, rank).rank;
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::string circle;
    for (const int waiting : path) {
      const PipelinePlace next{waiting, done[waiting]};
      const PipelinePlace missing = awaited(done, waiting);
      circle += fmt::format("{}rank {} at {} waits for {} of rank {}", circle.empty() ? "" : ", ",
                            waiting, to_text(index_.task(next)), to_text(index_.task(missing)),
                            missing.rank);
    }
    fail("deadlock: {}", circle);
  }

  [[nodiscard]] std::int64_t key(int stage, int microbatch) const {
    return std::int64_t{stage} * table_.microbatches + microbatch;
  }

  const PipelineTable& table_;
  PipelineIndex index_;
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> problems(const PipelineTable& table) {
  if (std::vector<std::string> found = form_problems(table); !found.empty()) {
    return found;
  }
  return PipelineVerifier(table).run();
}

}  // namespace trireme
