// Builds a graph from another, node by node: shared by the graph-to-graph passes. The new graph has all leaves from the
// start; nodes are added as they are copied.
#pragma once

#include <vector>

#include "base/indexed_vector.h"
#include "trireme/graph.h"

namespace trireme {

class Rebuild {
 public:
  /// `from` must outlive this object.
  explicit Rebuild(const Graph& from);

  /// The new id of a value of the old graph; it must have been copied or replaced.
  [[nodiscard]] ValueId now(ValueId old) const;
  [[nodiscard]] std::vector<ValueId> now(const std::vector<ValueId>& old) const;
  void replace(ValueId old, ValueId by);

  /// Copies the node, with its inputs mapped. Its results keep their names.
  void copy(const Node& node) { copy(node, now(node.inputs)); }
  /// The same with these inputs.
  void copy(const Node& node, std::vector<ValueId> inputs);
  /// Adds a node like this one with these inputs, in another phase; its results do not replace any old value yet.
  std::vector<ValueId> add(const Node& node, std::vector<ValueId> inputs, Phase phase);

  [[nodiscard]] GraphBuilder& builder() noexcept { return builder_; }

  /// The graph, with the old one's updates and outputs.
  [[nodiscard]] Graph finish();

 private:
  const Graph& from_;
  GraphBuilder builder_;
  IndexedVector<ValueId, ValueId> now_;
};

}  // namespace trireme
