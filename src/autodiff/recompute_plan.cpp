// Dynamic programming along the chain of blocks. A block's own mode determines its FLOPs; the values it keeps depend on
// its mode and the previous block's, because a value between the two is kept only once even if both read it again. So a
// partial plan, up to some block, is (bytes kept, FLOPs, last mode), and of two with the same last mode one that is
// worse in both respects can be dropped. Of the remaining plans, the best within the budget is the best of all 3^n.
//
// For n identical blocks, about n plans remain after each, so the whole takes O(n^2).
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "autodiff/recompute_analysis.h"
#include "base/indexed_vector.h"
#include "trireme/recompute.h"

namespace trireme {
namespace {

/// A plan for the blocks so far.
struct Partial {
  std::int64_t kept = 0;
  double flops = 0;
  RecomputeMode mode = RecomputeMode::None;  // of the last block
  std::size_t before = 0;                    // index of its predecessor among the shorter plans
};

template <class T>
using ByMode = IndexedArray<RecomputeMode, T, kRecomputeModes.size()>;

bool is_better(const Partial& a, const Partial& b) {
  return a.flops != b.flops ? a.flops < b.flops : a.kept < b.kept;
}

/// Keeps the plans that no other with the same last mode dominates.
std::vector<Partial> without_worse(std::vector<Partial> plans) {
  std::ranges::sort(plans, is_better);
  ByMode<std::int64_t> least{};
  std::ranges::fill(least, std::numeric_limits<std::int64_t>::max());
  std::erase_if(plans, [&](const Partial& plan) {
    std::int64_t& so_far = least.at(plan.mode);
    const bool worse = plan.kept >= so_far;
    so_far = std::min(so_far, plan.kept);
    return worse;
  });
  return plans;
}

class Planning {
 public:
  explicit Planning(const Graph& graph) : analysis_(graph) {}

  std::optional<RecomputePlan> run(Bytes budget) {
    layers_.push_back({{.kept = analysis_.of({}).kept.count}});
    for (std::size_t b = 0; b < analysis_.blocks().size(); ++b) {
      layers_.push_back(without_worse(extended(b)));
    }
    const std::vector<Partial>& last = layers_.back();
    const Partial* best = nullptr;
    for (const Partial& plan : last) {
      if (plan.kept <= budget.count && (best == nullptr || is_better(plan, *best))) {
        best = &plan;
      }
    }
    return best == nullptr ? std::nullopt : std::optional(read_back(*best));
  }

 private:
  /// How choosing these modes for a block and the previous one changes the totals, with all others keeping everything.
  struct Change {
    std::int64_t kept = 0;
    double flops = 0;
  };

  /// All plans so far, each with every mode for the next block.
  std::vector<Partial> extended(std::size_t b) {
    ByMode<ByMode<Change>> changes{};  // by the mode before and of the block
    for (const RecomputeMode before : kRecomputeModes) {
      for (const RecomputeMode mode : kRecomputeModes) {
        changes.at(before).at(mode) = change(b, before, mode);
      }
    }
    std::vector<Partial> plans;
    const std::vector<Partial>& so_far = layers_.back();
    for (std::size_t i = 0; i < so_far.size(); ++i) {
      for (const RecomputeMode mode : kRecomputeModes) {
        const Change& more = changes.at(so_far[i].mode).at(mode);
        plans.push_back({so_far[i].kept + more.kept, so_far[i].flops + more.flops, mode, i});
      }
    }
    return plans;
  }

  [[nodiscard]] Change change(std::size_t b, RecomputeMode before, RecomputeMode mode) const {
    RecomputeOptions options;
    if (b > 0) {
      options.blocks[analysis_.blocks()[b - 1]] = before;
    }
    const Recomputed without = analysis_.of(options);
    options.blocks[analysis_.blocks()[b]] = mode;
    const Recomputed with = analysis_.of(options);
    return {with.kept.count - without.kept.count, with.flops - without.flops};
  }

  [[nodiscard]] RecomputePlan read_back(Partial plan) const {
    RecomputeOptions options;
    for (std::size_t b = analysis_.blocks().size(); b-- > 0;) {
      options.blocks[analysis_.blocks()[b]] = plan.mode;
      plan = layers_[b].at(plan.before);
    }
    const Recomputed outcome = analysis_.of(options);
    return {options.blocks, outcome.kept, outcome.flops};
  }

  RecomputeAnalysis analysis_;
  std::vector<std::vector<Partial>> layers_;
};

}  // namespace

std::optional<RecomputePlan> plan_recompute(const Graph& graph, Bytes budget) {
  return Planning(graph).run(budget);
}

}  // namespace trireme
