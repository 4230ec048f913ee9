// The pipeline stage of each node of a graph, in order. One thread at a time.
#pragma once

#include <map>

#include "base/indexed_vector.h"
#include "partition/placed.h"

namespace trireme::partition {

class NodeStages {
 public:
  /// Uses the graph, placements and homes of `placed`, which must outlive this object.
  explicit NodeStages(const Placed& placed);

  /// The first rule that applies: the update of a parameter runs on the parameter's stage; a node may have its own
  /// stage, the stage of a node it follows, or its block's; otherwise it runs where its inputs are.
  [[nodiscard]] int find(NodeId id) const;
  void set(NodeId id, int stage);
  /// Of a computed value; -1 if it is not computed, or not yet.
  [[nodiscard]] int of(ValueId id) const { return stages_[id]; }

 private:
  void find_movers(const Update& update);
  [[nodiscard]] int stage_of_inputs(const Node& node) const;
  [[nodiscard]] bool is_late(ValueId id) const;

  const Placed& placed_;
  std::map<NodeId, ValueId> moves_;  ///< the parameter whose next value a node computes
  IndexedVector<ValueId, int> stages_;
};

}  // namespace trireme::partition
