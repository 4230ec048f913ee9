// Makes a graph from another, node by node: what the passes from graph to graph have in common. The new
// graph has all leaves from the start; nodes come as they are copied.
#pragma once

#include <vector>

#include "trireme/graph.h"

namespace trireme {

class Rebuild {
 public:
  /// `from` must live as long as this.
  explicit Rebuild(const Graph& from);

  /// What stands for a value of the old graph; it must have been copied or replaced.
  [[nodiscard]] ValueId now(ValueId old) const;
  [[nodiscard]] std::vector<ValueId> now(const std::vector<ValueId>& old) const;
  void replace(ValueId old, ValueId by);

  /// The node over what stands for its inputs. Its results keep their names.
  void copy(const Node& node) { copy(node, now(node.inputs)); }
  /// The same over these inputs.
  void copy(const Node& node, std::vector<ValueId> inputs);
  /// A node like this over these inputs, in another phase; its results stand for nothing yet.
  std::vector<ValueId> add(const Node& node, std::vector<ValueId> inputs, Phase phase);

  [[nodiscard]] GraphBuilder& builder() noexcept { return builder_; }

  /// The graph, with the old one's updates and outputs.
  [[nodiscard]] Graph finish();

 private:
  const Graph& from_;
  GraphBuilder builder_;
  std::vector<ValueId> now_;
};

}  // namespace trireme
