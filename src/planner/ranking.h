// The fastest layouts that a search has met. One thread at a time.
#pragma once

#include <limits>

#include "trireme/planner.h"

namespace trireme::planner {

class Ranking {
 public:
  /// Throws Error(Usage) if the device's memory is not known and the options state none.
  Ranking(const TransformerCost& cost, const SearchOptions& options);

  [[nodiscard]] double memory_limit() const { return result_.memory_limit; }
  void consider(const ParallelLayout& layout, const StepCost& cost) {
    ++result_.searched;
    if (cost.memory_bytes() > result_.memory_limit) {
      add_too_large(layout, cost);
    } else if (cost.seconds < worst_) {
      insert({layout, cost, {}, {}});
    }
  }
  /// A layout that is known to fit.
  void add_fitting(RankedLayout layout);
  void count_too_large() {
    ++result_.searched;
    ++result_.too_large;
  }
  [[nodiscard]] PlanSearch take();

 private:
  void add_too_large(const ParallelLayout& layout, const StepCost& cost);
  void insert(RankedLayout found);

  std::size_t keep_;
  double worst_ = std::numeric_limits<double>::infinity();
  PlanSearch result_{};
};

/// Says why the others lost.
void explain_losses(PlanSearch& search);

}  // namespace trireme::planner
