// How each node of a graph is computed: the placements of its operands and results, and the changes in between, as a
// list of steps. The same for all ranks. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/changes.h"
#include "trireme/graph.h"
#include "trireme/partition.h"

namespace trireme::partition {

/// One way in which a value exists; its number in Placed::copies.
using CopyId = std::int32_t;

struct Copy {
  ValueId value{};
  Placement placement{};
  std::int32_t step = -1;  ///< that makes it; -1: it is there when the step begins
};

struct PlacedStep {
  NodeId node{};                          ///< invalid: a change
  std::vector<Placement::Dim> factors{};  ///< of the node: how each is cut
  Change change{};
  std::vector<CopyId> inputs{};
  std::vector<CopyId> outputs{};
  Phase phase = Phase::Forward;
  std::int32_t block = -1;
  int stage = 0;
};

struct Placed {
  Graph graph{};
  Wishes wishes{};
  int stage_count = 1;
  std::vector<Copy> copies{};
  std::vector<PlacedStep> steps{};
  std::vector<CopyId> outputs{};  ///< as the graph's
  std::vector<CopyId> updates{};  ///< likewise: the values, laid out as their targets
  std::vector<int>
      home{};  ///< by value: the stage of a parameter or state; -1: not used, or an input

  [[nodiscard]] bool is_by_micro(CopyId copy) const {
    return wishes.micro >= 0 &&
           copies[static_cast<std::size_t>(copy)].placement.mentions(wishes.micro);
  }
};

[[nodiscard]] Placed place(const Graph& graph, const Wishes& wishes);
[[nodiscard]] std::string to_text(const Placed& placed);

}  // namespace trireme::partition
