#include "partition/task_steps.h"

#include <algorithm>

namespace trireme::partition {

TaskSteps::TaskSteps(const Placed& placed, const PipelineTable& table) : placed_(placed) {
  for (const std::vector<PipelineTask>& tasks : table.tasks) {
    for (const PipelineTask& task : tasks) {
      splits_backward_ = splits_backward_ || task.work == PipelineWork::BackwardInput;
    }
  }
  find_weight_steps();
  const std::size_t count = placed_.steps.size();
  late_.assign(count, false);
  for (std::size_t s = 0; s < count; ++s) {
    const PlacedStep& step = placed_.steps[s];
    late_[s] = merges_micro(step) || reads_late(step);
    by_task_[{step.stage, work_of(s)}].push_back(s);
  }
}

std::vector<std::size_t> TaskSteps::of(int stage, PipelineWork work) const {
  const auto it = by_task_.find({stage, work});
  return it == by_task_.end() ? std::vector<std::size_t>{} : it->second;
}

bool TaskSteps::is_by_micro(const PlacedStep& step) const {
  const auto by = [&](CopyId id) { return placed_.is_by_micro(id); };
  return std::ranges::any_of(step.inputs, by) || std::ranges::any_of(step.outputs, by);
}

PipelineWork TaskSteps::work_of(std::size_t step) const {
  switch (placed_.steps[step].phase) {
    case Phase::Forward:
      return PipelineWork::Forward;
    case Phase::Update:
      return PipelineWork::Update;
    case Phase::Recompute:
    case Phase::Backward:
      break;
  }
  if (!splits_backward_) {
    return PipelineWork::Backward;
  }
  return for_weights_[step] ? PipelineWork::BackwardWeight : PipelineWork::BackwardInput;
}

bool TaskSteps::merges_micro(const PlacedStep& step) const {
  return !step.node.valid() && step.change.axis == placed_.micro() &&
         step.change.kind != ChangeKind::Slice;
}

/// Late results of the forward are available when the backward begins.
bool TaskSteps::reads_late(const PlacedStep& step) const {
  return std::ranges::any_of(step.inputs, [&](CopyId id) {
    if (placed_.copy(id).step < 0 || placed_.is_by_micro(id)) {
      return false;
    }
    const std::int32_t made_by = placed_.copy(id).step;
    return late_[made_by] &&
           (step.phase == Phase::Forward || placed_.steps[made_by].phase != Phase::Forward);
  });
}

/// Steps of the backward whose results only updates use, including the resharding in between.
void TaskSteps::find_weight_steps() {
  const std::size_t count = placed_.steps.size();
  for_weights_.assign(count, true);
  std::vector<bool> is_read(count, false);
  for (std::size_t s = count; s-- > 0;) {
    const PlacedStep& step = placed_.steps[s];
    // Resharding without readers belongs to the input's half.
    for_weights_[s] = for_weights_[s] && is_read[s];
    const bool harmless = step.phase == Phase::Update || (!step.node.valid() && for_weights_[s]);
    for (const CopyId input : step.inputs) {
      if (placed_.copy(input).step >= 0) {
        const std::int32_t made_by = placed_.copy(input).step;
        is_read[made_by] = true;
        for_weights_[made_by] = for_weights_[made_by] && harmless;
      }
    }
  }
}

}  // namespace trireme::partition
