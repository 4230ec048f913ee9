// Chimera (Li and Hoefler, 2021): two copies of the model, one from the first rank to the last and
// one from the last to the first, each for every other micro-batch. Each copy fills the other's
// idle time. For even N >= D and equal times of forward and backward the bubble is (D-2)/(D-2+2N);
// each rank keeps at most D activations, and two stages' weights.
//
// The order is found by simulating slots of equal length: in each, a rank runs its preferred task
// among the possible ones. No single preference is best for every N, so a few are tried.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "base/indexed_vector.h"
#include "plan/pipeline_tables.h"

namespace trireme {
namespace {

constexpr int kCopies = 2;

enum class Preference {
  Backward,        ///< backwards before forwards, then the lowest micro-batch
  Forward,         ///< forwards before backwards, then the lowest micro-batch
  ForwardAndDeep,  ///< forwards before backwards, then the last stage
};

class ChimeraRun {
 public:
  ChimeraRun(PipelineTable table, Preference preference)
      : table_(std::move(table)), preference_(preference) {
    in_flight_.resize(table_.ranks);
    for (auto& of_work : counts_) {
      for (IndexedVector<int, int>& of_copy : of_work) {
        of_copy.resize(table_.ranks);
      }
    }
  }

  /// The number of slots, or nothing on a deadlock.
  std::optional<int> run() {
    const int all = 2 * table_.ranks * table_.microbatches;
    int slot = 0;
    for (int done = 0; done < all; ++slot) {
      const std::vector<PipelineTask> chosen = choose();
      if (chosen.empty()) {
        return std::nullopt;
      }
      for (const PipelineTask& task : chosen) {
        carry_out(task);
      }
      done += static_cast<int>(chosen.size());
    }
    return slot;
  }

  [[nodiscard]] PipelineTable take() { return std::move(table_); }

 private:
  /// The number of the copy's micro-batches for which this work is done on the stage; they come in
  /// order.
  [[nodiscard]] int& count(PipelineWork work, int copy, int stage) {
    return counts_.at(work).at(copy)[stage];
  }

  /// The task of each rank in a slot, given the earlier tasks.
  std::vector<PipelineTask> choose() {
    std::vector<PipelineTask> chosen;
    for (int rank = 0; rank < table_.ranks; ++rank) {
      if (const std::optional<PipelineTask> task = most_liked(rank)) {
        chosen.push_back(*task);
      }
    }
    return chosen;
  }

  std::optional<PipelineTask> most_liked(int rank) {
    std::optional<PipelineTask> best;
    for (int copy = 0; copy < kCopies; ++copy) {
      const int stage = table_.rank_of(copy, rank);  // each copy's placement is its own inverse
      for (const PipelineWork work : {PipelineWork::Forward, PipelineWork::Backward}) {
        const PipelineTask task{work, stage, kCopies * count(work, copy, stage) + copy, copy};
        if (is_possible(task, rank) && (!best || is_liked_more(task, *best))) {
          best = task;
        }
      }
    }
    return best;
  }

  bool is_possible(const PipelineTask& task, int rank) {
    if (task.microbatch >= table_.microbatches) {
      return false;
    }
    const int done = count(task.work, task.copy, task.stage);
    if (task.work == PipelineWork::Forward) {
      return in_flight_[rank] < table_.ranks &&
             (task.stage == 0 || count(task.work, task.copy, task.stage - 1) > done);
    }
    return count(PipelineWork::Forward, task.copy, task.stage) > done &&
           (task.stage + 1 == table_.stages || count(task.work, task.copy, task.stage + 1) > done);
  }

  [[nodiscard]] bool is_liked_more(const PipelineTask& one, const PipelineTask& other) const {
    const PipelineWork first =
        preference_ == Preference::Backward ? PipelineWork::Backward : PipelineWork::Forward;
    const auto key = [&](const PipelineTask& task) {
      const int depth = preference_ == Preference::ForwardAndDeep ? -task.stage : 0;
      return std::tuple(task.work != first, depth, task.microbatch);
    };
    return key(one) < key(other);
  }

  void carry_out(const PipelineTask& task) {
    const int rank = table_.rank_of(task.copy, task.stage);
    ++count(task.work, task.copy, task.stage);
    in_flight_[rank] += task.work == PipelineWork::Forward ? 1 : -1;
    table_.tasks[rank].push_back(task);
  }

  PipelineTable table_;
  Preference preference_;
  /// By work, copy and stage.
  IndexedArray<PipelineWork, std::array<IndexedVector<int, int>, kCopies>, 2> counts_{};
  IndexedVector<int, int> in_flight_;  ///< by rank: micro-batches between forward and backward
};

}  // namespace

PipelineTable make_chimera(const PipelineOptions& options) {
  PipelineTable table = empty_pipeline("chimera", options, 1);
  table.copies = kCopies;
  table.placement.push_back(table.placement.front());
  std::ranges::reverse(table.placement.back());
  std::optional<int> fewest;
  PipelineTable best;
  for (const Preference preference :
       {Preference::Backward, Preference::Forward, Preference::ForwardAndDeep}) {
    ChimeraRun run(table, preference);
    const std::optional<int> slots = run.run();
    if (slots && (!fewest || *slots < *fewest)) {
      fewest = slots;
      best = run.take();
    }
  }
  TRIREME_CHECK(fewest, "no order for chimera");
  for (int copy = 0; copy < kCopies; ++copy) {
    for (int stage = 0; stage < best.stages; ++stage) {
      best.tasks[best.rank_of(copy, stage)].push_back(
          {PipelineWork::Update, stage, best.microbatches - 1, copy});
    }
  }
  return best;
}

}  // namespace trireme
