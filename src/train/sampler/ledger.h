// The master's bookkeeping for an epoch: which samples are open, taken or consumed. No messages, no clock. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/indexed_vector.h"
#include "train/data/permutation.h"
#include "trireme/sampler.h"

namespace trireme::train {

/// Each sample is open, taken by one worker, or consumed. Open samples are in a worker's list, in the part of the
/// shared order not reached yet, or among those returned by lost workers.
class SampleLedger {
 public:
  /// All samples in the shared order. Throws Error(Usage) if there are none.
  SampleLedger(const PoolOptions& order, Rank workers);
  /// All samples in lists, one per worker.
  explicit SampleLedger(const std::vector<std::vector<SampleIndex>>& lists);

  /// Takes at most `count` samples: from the worker's own list; if that is empty, from the returned ones; then from the
  /// shared order. Requires that the worker is not lost.
  [[nodiscard]] std::vector<SampleIndex> take(Rank worker, std::int64_t count);
  /// Marks the first `count` samples that the worker has taken as consumed, and returns them. Requires that it has
  /// taken that many and is not lost.
  [[nodiscard]] std::vector<SampleIndex> confirm(Rank worker, std::int64_t count);
  /// Returns the worker's taken samples and the rest of its list to the pool. Idempotent.
  void lose(Rank worker);

  [[nodiscard]] bool is_over() const noexcept { return left_ == 0; }
  /// Number of samples not yet consumed.
  [[nodiscard]] std::int64_t left() const noexcept { return left_; }
  [[nodiscard]] bool holds_some(Rank worker) const { return !workers_.at(worker).taken.empty(); }

 private:
  struct Worker {
    std::deque<SampleIndex> list;
    std::deque<SampleIndex> taken;
    bool lost = false;
  };
  Worker& living(Rank worker);

  IndexedVector<Rank, Worker> workers_;
  std::deque<SampleIndex> given_back_;
  std::optional<Permutation> order_;
  std::int64_t reached_ = 0;  ///< position in the order
  std::int64_t samples_ = 0;  ///< length of the order
  std::int64_t left_ = 0;
};

}  // namespace trireme::train
