// The losses of a run that its summary shows. One thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <numeric>
#include <optional>

namespace trireme::train {

class LossHistory {
 public:
  void add(double loss) {
    first_ = first_.value_or(loss);
    last_.push_back(loss);
    if (last_.size() > kLastSteps) {
      last_.pop_front();
    }
  }

  /// Of the first step.
  [[nodiscard]] std::optional<double> first() const { return first_; }
  /// The mean over the last 20 steps.
  [[nodiscard]] std::optional<double> mean_of_last() const {
    if (last_.empty()) {
      return std::nullopt;
    }
    return std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(last_.size());
  }

 private:
  static constexpr std::size_t kLastSteps = 20;

  std::optional<double> first_;
  std::deque<double> last_;
};

}  // namespace trireme::train
