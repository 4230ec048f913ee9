// Runs a worker through a stretch of steps, at its own pace. One thread at a time.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "train/sync/step_board.h"
#include "trireme/train.h"

namespace trireme::train {

/// A worker's callbacks for its shares, and for the reports of steps that all workers have completed.
struct StretchWork {
  std::function<ShareResult(const BatchShare&)> run_share{};
  std::function<void(const StepReport&)> publish{};
};

struct StretchEnd {
  std::int64_t last = 0;     ///< the last step done
  bool stopped = false;      ///< on a rank's request
  StepReport last_report{};  ///< of that step
  bool unpublished = false;  ///< it is the stretch's last step, whose report the caller publishes
};

/// Takes shares until the stretch ends. Reports have the mean time of the last kMaxLead steps, because steps complete in
/// bursts: a worker may be that many ahead. The last step is not published, because it may need all workers: to validate. Collective.
[[nodiscard]] StretchEnd run_stretch(StepBoard& board, const Stretch& stretch,
                                     const StretchWork& work);

/// The next step after `step` at which all workers meet: a multiple of one of the intervals (0: none), or the last.
[[nodiscard]] std::int64_t next_meeting(std::int64_t step, std::int64_t last,
                                        std::initializer_list<std::int64_t> intervals);

}  // namespace trireme::train
