// One decision after the other. What a block costs is computed once for all numbers of stages, schedules, ZeRO levels and
// buckets; the innermost step is a few dozen floating-point operations.
#include "planner/exhaustive.h"

#include <array>

namespace trireme::planner {
namespace {

class Exhaustive {
 public:
  Exhaustive(const TransformerCost& cost, const LayoutSpace& space, Ranking& ranking)
      : cost_(cost), space_(space), ranking_(ranking) {}

  void run() { decide(0); }

 private:
  void decide(int index) {
    if (index == kDecisions) {
      ranking_.consider(layout_, cost_.step(layout_, blocks_));
      return;
    }
    const auto decision = static_cast<Decision>(index);
    if (decision == Decision::Pipe) {
      blocks_ = cost_.blocks(layout_);
    }
    std::vector<int>& choices = choices_[index];
    space_.choices(decision, layout_, choices);
    for (const int value : choices) {
      space_.set(decision, value, layout_);
      decide(index + 1);
    }
  }

  const TransformerCost& cost_;
  const LayoutSpace& space_;
  Ranking& ranking_;
  ParallelLayout layout_{};
  TransformerCost::Blocks blocks_{};
  std::array<std::vector<int>, kDecisions> choices_;
};

}  // namespace

void try_all(const TransformerCost& cost, const LayoutSpace& space, Ranking& ranking) {
  Exhaustive(cost, space, ranking).run();
}

}  // namespace trireme::planner
