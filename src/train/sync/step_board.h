// StepBoard: hands a worker its next share of the data and collects the workers' results, without making fast workers
// wait for slow ones. One per worker and stretch of steps; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm.h"
#include "trireme/train.h"

namespace trireme::train {

/// A worker's share of a batch.
struct BatchShare {
  std::int64_t step = 0;  ///< counts from 1
  int part = 0;           ///< which of the batch's parts; there is one for each worker
};

/// A rank's result for its share. Plain numbers, because it is sent to the others.
struct ShareResult {
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  double loss_scale = 0;  ///< 0: not scaled
  double staleness = 0;
  double moved = 0;   ///< squared distance by which mixing moved this rank's shards
  double length = 0;  ///< their squared length
  double failed = 0;  ///< 1: the loss or a gradient was not finite
  double stop = 0;    ///< 1: this rank requests a stop
  /// On a parameter server: the steps that this worker, and the slowest one, had done when it started.
  double clock = -1;
  double slowest_clock = -1;
};

/// Combines the ranks' results of a step into a report, without its time.
[[nodiscard]] StepReport summarize(std::int64_t step, std::span<const ShareResult> results);

/// The steps after `first` up to and including `last`.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
  /// What this worker did of them before, in order, if the stretch began again because a worker died.
  std::vector<ShareResult> done{};
};

class StepBoard {
 public:
  StepBoard() = default;
  virtual ~StepBoard() = default;
  StepBoard(const StepBoard&) = delete;
  StepBoard& operator=(const StepBoard&) = delete;

  /// This worker's next share; nothing at the end of the stretch. May wait for slower workers.
  [[nodiscard]] virtual std::optional<BatchShare> take() = 0;
  /// Completes the share taken last; fills in its staleness. If it failed or requests a stop, the stretch ends a few
  /// steps later, at the same step for all.
  virtual void post(ShareResult result) = 0;
  /// For a worker that waits for others: throws CommError if one of them is known to have failed.
  virtual void check() {}
  /// The steps that all workers have done since the last call, in order. Does not wait.
  [[nodiscard]] virtual std::vector<StepReport> completed() = 0;
  /// The remaining ones, at the end of the stretch. Collective.
  [[nodiscard]] virtual std::vector<StepReport> finish() = 0;
  /// The last step of the stretch. Final after finish().
  [[nodiscard]] virtual std::int64_t last() const = 0;
  /// Whether a rank requested a stop. Final after finish().
  [[nodiscard]] virtual bool stopped() const = 0;
};

/// How many steps ahead of the slowest a worker may get that need not wait for it: enough to absorb a straggler, few
/// enough to stop soon.
inline constexpr int kMaxLead = 16;

struct StepBoardOptions {
  int worker = 0;
  int max_lead = 0;  ///< a worker that is more steps ahead of the slowest waits
};

/// Every worker has its own part of each batch. The ranks exchange results in the background. The group is used by
/// nothing else and outlives the board. The staleness of a step is how many steps the slowest worker is behind when it
/// starts.
[[nodiscard]] std::unique_ptr<StepBoard> make_step_board(Group& ranks, const Stretch& stretch,
                                                         const StepBoardOptions& options);

/// For workers that are threads of one process: parts of batches come from a common pool, so fast workers do more. A
/// step has one part per worker, done by any of them. The staleness of a step is the number of parts that others
/// completed while it was computed. Collective.
[[nodiscard]] std::unique_ptr<StepBoard> make_pool_board(Group& threads, const Stretch& stretch);

}  // namespace trireme::train
