// The layouts that a search may try, as a sequence of decisions. Immutable; any thread.
#pragma once

#include <array>
#include <vector>

#include "trireme/planner.h"

namespace trireme::planner {

/// In the order in which they are made: the choices of one depend on those before it. What a block costs depends on the
/// ones up to Recompute.
enum class Decision : std::uint8_t {
  Tensor,
  Context,
  ContextMode,
  Expert,
  Microbatch,
  Recompute,
  Pipe,  ///< and data, which is the rest
  Order,
  Schedule,
  Chunks,
  Zero,
  Bucket,
};
inline constexpr int kDecisions = 12;

class LayoutSpace {
 public:
  /// Both live longer.
  LayoutSpace(const TransformerCost& cost, const SearchSpace& space);

  /// The values that the decision may have, given the earlier ones. Replaces `out`, which may be empty afterwards.
  void choices(Decision decision, const ParallelLayout& layout, std::vector<int>& out) const;

  // A decision's value as a number: a degree, an enumerator, a bucket in KiB.

  void set(Decision decision, int value, ParallelLayout& layout) const;
  [[nodiscard]] static int get(Decision decision, const ParallelLayout& layout);

 private:
  [[nodiscard]] bool wide() const { return space_.extent == SearchSpace::Extent::Wide; }
  [[nodiscard]] int devices() const { return cost_.cluster().devices(); }
  /// Appends the divisors of n up to `most` that `wanted` allows; powers of two unless given or wide.
  void add_divisors(std::int64_t n, std::int64_t most, const std::vector<int>& wanted,
                    std::vector<int>& out) const;
  void add_tensor(std::vector<int>& out) const;
  void add_context(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_context_modes(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_pipe(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_schedules(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_chunks(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_zero(const ParallelLayout& layout, std::vector<int>& out) const;
  void add_buckets(const ParallelLayout& layout, std::vector<int>& out) const;
  [[nodiscard]] bool may_deal(int pipe, int chunks) const;

  const TransformerCost& cost_;
  const SearchSpace& space_;
};

}  // namespace trireme::planner
