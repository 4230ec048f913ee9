// NodePlacer: how one node can be sharded, according to its op's factors. Callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/op.h"
#include "trireme/placement.h"

namespace trireme::partition {

/// The sharding of each factor.
using Assignment = std::vector<Placement::Dim>;

class NodePlacer {
 public:
  /// All three must outlive this object.
  NodePlacer(const Graph& graph, const Node& node, const Axes& axes);

  [[nodiscard]] Assignment none() const { return Assignment(factors_.factors.size()); }

  /// Adds the compatible part of the sharding of input k with this placement.
  void vote(Assignment& assignment, std::size_t k, const Placement& placement) const;
  /// The same for output k, of which a reader prefers this axis's sharding.
  void vote_for_output(Assignment& assignment, std::size_t k, const Placement& placement,
                       int axis) const;

  /// The same for the axes of output k that shard factors missing from all inputs: those cost nothing.
  void vote_for_new(Assignment& assignment, std::size_t k, const Placement& placement) const;
  /// Lets operands circulate along these axes, if the op can take a factor in turn and the axis shards another of its
  /// factors. Each result must have one of the two, and no operand both.
  void take_in_turn(Assignment& assignment, const std::set<int>& axes) const;

  /// The required placement of an operand, and the placement of a result, with this sharding of the factors.
  [[nodiscard]] Placement input_placement(const Assignment& assignment, std::size_t k) const;
  [[nodiscard]] Placement output_placement(const Assignment& assignment, std::size_t k) const;

 private:
  using Dim = std::vector<std::int32_t>;  ///< the factors of a dimension

  [[nodiscard]] const Factor& factor(std::int32_t number) const { return factors_.factors[number]; }
  [[nodiscard]] const Shape& shape(ValueId value) const { return graph_.value(value).type.shape; }
  [[nodiscard]] std::int32_t leading(const Dim& dim) const;
  [[nodiscard]] std::int64_t unit_of(const Dim& dim) const;
  void find_splittable();
  void keep_leading(const Factors::Dims& dims);
  void vote_in(Assignment& assignment, const Dim& dim, const Placement::Dim& sharding,
               std::int64_t size) const;
  [[nodiscard]] Placement placement_of(const Assignment& assignment, const Factors::Dims& dims,
                                       const Shape& shape) const;
  [[nodiscard]] std::optional<Placement::Dim> factor_sharding(const Placement::Dim& sharding,
                                                              const Dim& dim,
                                                              std::int64_t size) const;

  const Graph& graph_;
  const Node& node_;
  const Axes& axes_;
  Factors factors_;
  IndexedVector<std::int32_t, bool> splittable_;  ///< by factor
};

}  // namespace trireme::partition
