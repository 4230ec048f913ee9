// Dealing blocks out to stages of unequal speed.
#include <algorithm>

#include "planner/never.h"
#include "trireme/placement_search.h"

namespace trireme {
namespace {

class Deal {
 public:
  Deal(const DealOptions& options, const BlockSeconds& seconds) : options_(options) {
    const int most = options.blocks - options.stages + 1;
    for (int stage = 0; stage < options.stages; ++stage) {
      std::vector<double>& own = seconds_.emplace_back();
      for (int blocks = 1; blocks <= most; ++blocks) {
        own.push_back(seconds(stage, blocks).value_or(kNever));
        limits_.push_back(own.back());
      }
    }
    std::ranges::sort(limits_);
    limits_.erase(std::unique(limits_.begin(), limits_.end()), limits_.end());
    std::erase(limits_, kNever);
  }

  std::optional<StageSplit> solve() {
    std::optional<StageSplit> best;
    for (const double limit : limits_) {
      if (best && (options_.microbatches - 1) * limit >= best->seconds) {
        break;  // limits only grow from here
      }
      if (!enough(limit)) {
        continue;
      }
      StageSplit split = cheapest(limit);
      if (!best || split.seconds < best->seconds) {
        best = std::move(split);
      }
    }
    return best;
  }

 private:
  /// How many blocks the stage can have within the limit.
  [[nodiscard]] int most(std::size_t stage, double limit) const {
    const std::vector<double>& own = seconds_[stage];
    return static_cast<int>(std::ranges::upper_bound(own, limit) - own.begin());
  }

  [[nodiscard]] bool enough(double limit) const {
    int blocks = 0;
    for (std::size_t stage = 0; stage < seconds_.size(); ++stage) {
      const int own = most(stage, limit);
      if (own == 0) {
        return false;
      }
      blocks += own;
    }
    return blocks >= options_.blocks;
  }

  /// The least sum with no stage above the limit: for each stage and number of blocks so far.
  [[nodiscard]] StageSplit cheapest(double limit) const {
    const int width = options_.blocks + 1;
    std::vector<double> sum(width, kNever);
    std::vector<std::vector<int>> chosen(seconds_.size(), std::vector<int>(width));
    sum[0] = 0;
    for (std::size_t stage = 0; stage < seconds_.size(); ++stage) {
      sum = with_stage(stage, most(stage, limit), sum, chosen[stage]);
    }
    return split_of(chosen, sum.back());
  }

  /// The least sums with one more stage, and how many blocks it has in them.
  [[nodiscard]] std::vector<double> with_stage(std::size_t stage, int most,
                                               const std::vector<double>& before,
                                               std::vector<int>& chosen) const {
    std::vector<double> sum(before.size(), kNever);
    for (int blocks = 1; blocks < std::ssize(sum); ++blocks) {
      for (int b = 1; b <= std::min(most, blocks); ++b) {
        const double total = before[blocks - b] + seconds_[stage][b - 1];
        if (total < sum[blocks]) {
          sum[blocks] = total;
          chosen[blocks] = b;
        }
      }
    }
    return sum;
  }

  [[nodiscard]] StageSplit split_of(const std::vector<std::vector<int>>& chosen, double sum) const {
    StageSplit split;
    double slowest = 0;
    int last = options_.blocks;
    for (std::size_t stage = chosen.size(); stage-- > 0;) {
      const int blocks = chosen[stage][last];
      const double seconds = seconds_[stage][blocks - 1];
      split.stages.push_back({last - blocks, last, 1, seconds});
      slowest = std::max(slowest, seconds);
      last -= blocks;
    }
    std::ranges::reverse(split.stages);
    split.seconds = sum + (options_.microbatches - 1) * slowest;
    return split;
  }

  DealOptions options_;
  std::vector<std::vector<double>> seconds_;  ///< by stage and blocks, from 1
  std::vector<double> limits_;
};

}  // namespace

std::optional<StageSplit> deal_to_unequal_stages(const DealOptions& options,
                                                 const BlockSeconds& seconds) {
  return options.stages < 1 || options.blocks < options.stages ? std::nullopt
                                                               : Deal(options, seconds).solve();
}

}  // namespace trireme
