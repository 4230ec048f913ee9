// Which placed steps belong to which task of a pipeline table. Callable from any thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partition/placed.h"
#include "trireme/pipeline.h"

namespace trireme::partition {

class TaskSteps {
 public:
  /// `placed` must outlive this object.
  TaskSteps(const Placed& placed, const PipelineTable& table);

  /// Numbers in Placed::steps, in order.
  [[nodiscard]] std::vector<std::size_t> of(int stage, PipelineWork work) const;

  /// Whether the step needs all micro-batches of the forward, or of the backward.
  [[nodiscard]] bool is_late(std::size_t step) const { return late_[step]; }
  /// Whether it runs per micro-batch.
  [[nodiscard]] bool is_by_micro(const PlacedStep& step) const;
  /// Whether it merges micro-batches.
  [[nodiscard]] bool merges_micro(const PlacedStep& step) const;

 private:
  [[nodiscard]] PipelineWork work_of(std::size_t step) const;
  [[nodiscard]] bool reads_late(const PlacedStep& step) const;
  void find_weight_steps();

  const Placed& placed_;
  bool splits_backward_ = false;
  std::vector<bool> late_;         ///< by step
  std::vector<bool> for_weights_;  ///< by step
  std::map<std::pair<int, PipelineWork>, std::vector<std::size_t>> by_task_;
};

}  // namespace trireme::partition
