// What a choice of modes means for a graph: which nodes are computed again, what is kept, what it costs.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/recompute.h"

namespace trireme {

struct Recomputed {
  std::vector<bool> values{};  ///< by value: later phases read a second copy
  std::vector<bool> nodes{};   ///< by node: computed again
  Bytes kept{};                ///< as kept_bytes of the new graph
  double flops = 0;
};

class RecomputeAnalysis {
 public:
  /// `graph` must live as long as this.
  explicit RecomputeAnalysis(const Graph& graph);

  [[nodiscard]] Recomputed of(const RecomputeOptions& options) const;
  /// That have nodes in the forward, in the order in which they begin.
  [[nodiscard]] const std::vector<std::int32_t>& blocks() const noexcept { return blocks_; }

 private:
  [[nodiscard]] bool may_be_copied(ValueId value, const RecomputeOptions& options) const;

  const Graph& graph_;
  std::vector<double> flops_;       // by node
  std::vector<bool> expensive_;     // by node: kept in selective mode
  std::vector<bool> leaves_block_;  // by value
  std::vector<std::int32_t> blocks_;
};

}  // namespace trireme
