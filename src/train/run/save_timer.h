// When a run saves a checkpoint. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>

#include "trireme/train_settings.h"

namespace trireme::train {

class SaveTimer {
 public:
  /// `step` is the one that the run resumes from; -1: nothing is saved yet.
  SaveTimer(const SaveInterval& interval, std::int64_t step) : interval_(interval), step_(step) {}

  /// Whether the next save is due by time.
  [[nodiscard]] bool time_is_up() const {
    const std::chrono::duration<double> passed = Clock::now() - since_;
    return interval_.time.count > 0 && passed.count() >= interval_.time.count;
  }
  /// Whether to save after this step.
  [[nodiscard]] bool is_due(std::int64_t step) const {
    const bool by_steps = interval_.steps > 0 && step % interval_.steps == 0;
    return step > 0 && step > step_ && (by_steps || time_is_up());
  }
  [[nodiscard]] bool has_saved(std::int64_t step) const { return step_ == step; }
  void saved(std::int64_t step) {
    step_ = step;
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  SaveInterval interval_;
  std::int64_t step_;  ///< saved last
  Clock::time_point since_ = Clock::now();
};

}  // namespace trireme::train
