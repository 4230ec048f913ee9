#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "train/sync/shared_object.h"
#include "train/sync/step_board.h"

namespace trireme::train {
namespace {

/// The state shared by the threads. Parts are numbered from 0 through all steps of the stretch.
class Pool {
 public:
  Pool(std::int64_t parts, int workers) : limit_(parts), workers_(workers) {}

  /// The next part, and how many are done; nothing if there are no more.
  struct Taken {
    std::int64_t part = 0;
    std::int64_t done = 0;
  };
  std::optional<Taken> take() {
    const MutexLock lock(mutex_);
    if (next_ == limit_) {
      return std::nullopt;
    }
    return Taken{.part = next_++, .done = std::ssize(results_)};
  }

  /// `done` is the part as taken. A part that requests a stop ends the stretch with the current
  /// step.
  void post(ShareResult result, std::int64_t done) {
    const MutexLock lock(mutex_);
    result.staleness = static_cast<double>(std::ssize(results_) - done);
    results_.push_back(result);
    if (result.stop + result.failed > 0) {
      limit_ = std::min(limit_, (next_ + workers_ - 1) / workers_ * workers_);
      stopped_ = true;
    }
  }

  /// The results of the parts [first, first + workers) by completion; empty if there are fewer.
  std::vector<ShareResult> step_from(std::int64_t first) const {
    const MutexLock lock(mutex_);
    if (first + workers_ > std::ssize(results_)) {
      return {};
    }
    const auto begin = results_.begin() + first;
    return {begin, begin + workers_};
  }

  [[nodiscard]] std::int64_t steps() const {
    const MutexLock lock(mutex_);
    return limit_ / workers_;
  }
  [[nodiscard]] bool stopped() const {
    const MutexLock lock(mutex_);
    return stopped_;
  }

 private:
  mutable Mutex mutex_;
  std::int64_t next_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::int64_t limit_ TRIREME_GUARDED_BY(mutex_);
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;
  std::vector<ShareResult> results_ TRIREME_GUARDED_BY(mutex_);  ///< by completion
  std::int64_t workers_;
};

class PoolBoard : public StepBoard {
 public:
  PoolBoard(Group& threads, const Stretch& stretch)
      : threads_(threads), stretch_(stretch), pool_(share_object(threads, [&] {
          return std::make_shared<Pool>((stretch.last - stretch.first) * threads.size(),
                                        threads.size());
        })) {}

  std::optional<BatchShare> take() override {
    const std::optional<Pool::Taken> taken = pool_->take();
    if (!taken) {
      return std::nullopt;
    }
    done_ = taken->done;
    return BatchShare{.step = stretch_.first + taken->part / threads_.size() + 1,
                      .part = static_cast<int>(taken->part % threads_.size())};
  }

  void post(ShareResult result) override { pool_->post(result, done_); }

  std::vector<StepReport> completed() override {
    std::vector<StepReport> reports;
    for (;;) {
      const std::vector<ShareResult> results = pool_->step_from(reported_ * threads_.size());
      if (results.empty()) {
        return reports;
      }
      reports.push_back(summarize(stretch_.first + ++reported_, results));
    }
  }

  std::vector<StepReport> finish() override {
    threads_.barrier();
    return completed();
  }

  [[nodiscard]] std::int64_t last() const override { return stretch_.first + pool_->steps(); }
  [[nodiscard]] bool stopped() const override { return pool_->stopped(); }

 private:
  Group& threads_;
  Stretch stretch_;
  std::shared_ptr<Pool> pool_;
  std::int64_t done_ = 0;      ///< parts completed when this worker took its last
  std::int64_t reported_ = 0;  ///< steps
};

}  // namespace

std::unique_ptr<StepBoard> make_pool_board(Group& threads, const Stretch& stretch) {
  return std::make_unique<PoolBoard>(threads, stretch);
}

}  // namespace trireme::train
