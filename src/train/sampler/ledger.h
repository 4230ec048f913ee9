// What a master knows of an epoch's samples: which are open, taken, consumed. No messages, no clock. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "train/data/permutation.h"
#include "trireme/sampler.h"

namespace trireme::train {

/// Each sample is open, taken by one worker, or consumed. Open ones lie in the list of a worker, in the common order
/// that has not been reached yet, or among those that lost workers gave back.
class SampleLedger {
 public:
  /// All in the common order. Throws Error(Usage) if there are no samples.
  SampleLedger(const PoolOptions& order, Rank workers);
  /// All in lists, one for each worker.
  explicit SampleLedger(const std::vector<std::vector<SampleIndex>>& lists);

  /// At most `count`: of the worker's own list; if that is empty, of those given back; then of the common order.
  /// Requires that the worker is not lost.
  [[nodiscard]] std::vector<SampleIndex> take(Rank worker, std::int64_t count);
  /// The first `count` that the worker has taken are consumed; returns them. Requires that it has taken so many and is
  /// not lost.
  [[nodiscard]] std::vector<SampleIndex> confirm(Rank worker, std::int64_t count);
  /// What the worker has taken, and the rest of its list, is given back. Nothing happens the second time.
  void lose(Rank worker);

  [[nodiscard]] bool is_over() const noexcept { return left_ == 0; }
  /// Not consumed.
  [[nodiscard]] std::int64_t left() const noexcept { return left_; }
  [[nodiscard]] bool holds_some(Rank worker) const {
    return !workers_.at(place(worker)).taken.empty();
  }

 private:
  struct Worker {
    std::deque<SampleIndex> list;
    std::deque<SampleIndex> taken;
    bool lost = false;
  };
  static std::size_t place(Rank worker) { return static_cast<std::size_t>(worker); }
  Worker& living(Rank worker);

  std::vector<Worker> workers_;
  std::deque<SampleIndex> given_back_;
  std::optional<Permutation> order_;
  std::int64_t reached_ = 0;  ///< in the order
  std::int64_t samples_ = 0;  ///< in the order
  std::int64_t left_ = 0;
};

}  // namespace trireme::train
