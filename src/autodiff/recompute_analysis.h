// Analyzes a choice of recomputation modes for a graph: the recomputed nodes, the kept values, the cost.
#pragma once

#include <cstdint>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/graph.h"
#include "trireme/recompute_choice.h"

namespace trireme {

struct Recomputed {
  IndexedVector<ValueId, bool> values{};  ///< later phases read a second copy
  std::vector<bool> nodes{};              ///< by node: recomputed
  Bytes kept{};                           ///< as kept_bytes of the new graph
  double flops = 0;
};

class RecomputeAnalysis {
 public:
  /// `graph` must outlive this object.
  explicit RecomputeAnalysis(const Graph& graph);

  [[nodiscard]] Recomputed of(const RecomputeOptions& options) const;
  /// The blocks with forward nodes, in the order in which they start.
  [[nodiscard]] const std::vector<std::int32_t>& blocks() const noexcept { return blocks_; }

 private:
  [[nodiscard]] bool may_be_copied(ValueId value, const RecomputeOptions& options) const;

  const Graph& graph_;
  std::vector<double> flops_;    // by node
  std::vector<bool> expensive_;  // by node: kept in selective mode
  IndexedVector<ValueId, bool> leaves_block_;
  std::vector<std::int32_t> blocks_;
};

}  // namespace trireme
