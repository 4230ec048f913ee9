// How each node of a graph is computed: the placements of its operands and results, and the resharding in between, as a
// list of steps. The same for all ranks. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "partition/changes.h"
#include "trireme/graph.h"
#include "trireme/plan.h"

namespace trireme::partition {

/// A value in one placement; an index into Placed::copies.
using CopyId = std::int32_t;

struct Copy {
  ValueId value{};
  Placement placement{};
  std::int32_t step = -1;  ///< the producer; -1: exists when the step begins
};

struct PlacedStep {
  NodeId node{};                          ///< invalid: resharding
  std::vector<Placement::Dim> factors{};  ///< of the node: the sharding of each
  Change change{};
  std::vector<CopyId> inputs{};
  std::vector<CopyId> outputs{};
  Phase phase = Phase::Forward;
  std::int32_t block = -1;
  int stage = 0;
};

struct Placed {
  Graph graph{};
  PlacementSpec placements{};
  int stage_count = 1;
  IndexedVector<CopyId, Copy> copies{};
  std::vector<PlacedStep> steps{};
  std::vector<CopyId> outputs{};  ///< as the graph's
  std::vector<CopyId> updates{};  ///< likewise: the values, laid out as their targets
  /// By value: the stage of a parameter or state; -1: not used, or an input.
  IndexedVector<ValueId, int> home{};

  [[nodiscard]] const Axes& axes() const { return placements.axes; }
  [[nodiscard]] int micro() const { return placements.micro; }
  [[nodiscard]] const Copy& copy(CopyId id) const { return copies[id]; }
  /// The original of a copy.
  [[nodiscard]] const Value& value(const Copy& copy) const { return graph.value(copy.value); }
  [[nodiscard]] const Value& value(CopyId id) const { return value(copy(id)); }

  [[nodiscard]] int stage_of(const Copy& copy) const {
    return copy.step >= 0 ? steps[copy.step].stage : std::max(home[copy.value], 0);
  }

  [[nodiscard]] bool is_input(CopyId id) const {
    return copy(id).step < 0 && value(id).origin == Origin::Input;
  }
  [[nodiscard]] bool is_by_micro(CopyId id) const {
    return micro() >= 0 && copy(id).placement.mentions(micro());
  }
};

[[nodiscard]] std::string to_text(const Placed& placed);

}  // namespace trireme::partition
