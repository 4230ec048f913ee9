// ScheduledContext: the parts of its group that a scheduled operation needs.
#pragma once

#include <cstddef>
#include <functional>

#include "comm/direct/direct.h"
#include "comm/op/context.h"
#include "comm/scheduled/mismatch_detector.h"
#include "comm/scheduled/schedule_cache.h"

namespace trireme::comm {

/// Everything outlives the operation.
struct ScheduledContext {
  const OpContext& op;
  const DirectContext* direct;  ///< if all members see one another's memory, else nullptr
  MismatchDetector& mismatches;
  ScheduleCache& schedules;
  const std::function<void(Operation operation, std::size_t step)>& on_step;
};

}  // namespace trireme::comm
