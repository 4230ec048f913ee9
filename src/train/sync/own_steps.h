// OwnSteps: what a worker did in its last steps, for the others if they must begin a stretch again. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "train/sync/step_board.h"

namespace trireme::train {

class OwnSteps {
 public:
  void add(std::int64_t step, const ShareResult& result) {
    steps_.emplace_back(step, result);
    if (steps_.size() > kKept) {
      steps_.pop_front();
    }
  }

  /// Those after `first` up to and including `last`, in order.
  [[nodiscard]] std::vector<ShareResult> within(std::int64_t first, std::int64_t last) const {
    std::vector<ShareResult> results;
    for (const auto& [step, result] : steps_) {
      if (step > first && step <= last) {
        results.push_back(result);
      }
    }
    return results;
  }

 private:
  /// A worker is at most kMaxLead + 1 steps ahead of the slowest, whose reports are as old again.
  static constexpr std::size_t kKept = 2UL * (kMaxLead + 2);

  std::deque<std::pair<std::int64_t, ShareResult>> steps_;
};

}  // namespace trireme::train
