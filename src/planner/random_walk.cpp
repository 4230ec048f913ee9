// Metropolis sampling of layouts (Jia et al. 2019, FlexFlow, which samples the placements of single ops). Layouts that do
// not fit into memory count as slower in proportion to what they lack, so that the walk can cross them.
#include "planner/random_walk.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace trireme::planner {
namespace {

class Walk {
 public:
  Walk(const TransformerCost& cost, const LayoutSpace& space, const McmcOptions& options,
       Ranking& ranking)
      : cost_(cost), space_(space), options_(options), ranking_(ranking), random_(options.seed) {}

  void run() {
    const std::int64_t patience = std::max<std::int64_t>(1, options_.moves / 10);
    std::int64_t since = patience;
    double best = 0;
    for (std::int64_t move = 0; move < options_.moves; ++move) {
      if (since >= patience) {
        if (!start()) {
          continue;  // a dead end; the next move tries again
        }
        best = current_;
        since = 0;
      } else {
        ++since;
        step();
      }
      if (current_ < best) {
        best = current_;
        since = 0;
      }
    }
  }

 private:
  // Not std::uniform_…_distribution, whose results differ from library to library.
  [[nodiscard]] std::size_t below(std::size_t n) { return random_() % n; }
  [[nodiscard]] double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  bool start() {
    layout_ = {};
    return complete(0, layout_, Keep::Nothing) && (current_ = evaluate(layout_), true);
  }

  void step() {
    ParallelLayout next = layout_;
    const auto first = static_cast<int>(below(kDecisions));
    const auto decision = static_cast<Decision>(first);
    space_.choices(decision, next, choices_);
    std::erase(choices_, LayoutSpace::get(decision, next));
    if (choices_.empty()) {
      return;
    }
    space_.set(decision, choices_[below(choices_.size())], next);
    if (!complete(first + 1, next, Keep::WhatFits)) {
      return;
    }
    const double seconds = evaluate(next);
    const double slowdown = (seconds - current_) / current_;
    if (slowdown <= 0 || uniform() < std::exp(-slowdown / options_.temperature)) {
      layout_ = next;
      current_ = seconds;
    }
  }

  enum class Keep : std::uint8_t { Nothing, WhatFits };
  /// Makes the decisions from `first` on at random, where the layout's own do not fit or are not to be kept.
  bool complete(int first, ParallelLayout& layout, Keep keep) {
    for (int d = first; d < kDecisions; ++d) {
      const auto decision = static_cast<Decision>(d);
      space_.choices(decision, layout, choices_);
      if (choices_.empty()) {
        return false;
      }
      const int own = LayoutSpace::get(decision, layout);
      const bool fits = std::ranges::find(choices_, own) != choices_.end();
      space_.set(decision, keep == Keep::WhatFits && fits ? own : choices_[below(choices_.size())],
                 layout);
    }
    return true;
  }

  double evaluate(const ParallelLayout& layout) {
    const StepCost cost = cost_.step(layout);
    ranking_.consider(layout, cost);
    return cost.seconds * std::max(1.0, cost.memory_bytes() / ranking_.memory_limit());
  }

  const TransformerCost& cost_;
  const LayoutSpace& space_;
  const McmcOptions& options_;
  Ranking& ranking_;
  std::mt19937_64 random_;
  ParallelLayout layout_{};
  double current_ = 0;
  std::vector<int> choices_;
};

}  // namespace

void walk_randomly(const TransformerCost& cost, const LayoutSpace& space,
                   const McmcOptions& options, Ranking& ranking) {
  Walk(cost, space, options, ranking).run();
}

}  // namespace trireme::planner
