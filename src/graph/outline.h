// Outline: a graph reduced to order and memory: the values that each node reads and writes, and their sizes; without
// names, attributes and shapes. Cheap to build for one rank of a large plan whose graph is not needed. Plain data; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "trireme/graph.h"

namespace trireme {

/// Numbers types: equal numbers, equal types.
class TypeNumbers {
 public:
  std::int32_t of(const TensorType& type);

 private:
  std::map<std::pair<DType, std::vector<std::int64_t>>, std::int32_t> numbers_;
};

struct Outline {
  struct Value {
    std::int64_t bytes = 0;
    std::int32_t type = -1;  ///< a number of TypeNumbers
    Origin origin = Origin::Node;
  };
  struct Node {
    const Op* op = nullptr;
    Phase phase = Phase::Forward;
    std::int32_t block = -1;
    bool is_collective = false;
    bool is_sum = false;
    std::int64_t tag = -1;  ///< of a receive
    /// Of a send: the tag of the receive with which it is waited for; -1: none.
    std::int64_t until = -1;
    std::uint32_t operands = 0;  ///< where its inputs, then its outputs, begin in Outline::operands
    std::uint32_t inputs = 0;    ///< how many
    std::uint32_t outputs = 0;
  };

  IndexedVector<ValueId, Value> values{};
  std::vector<Node> nodes{};
  std::vector<ValueId> operands{};
  std::vector<ValueId> outputs{};  ///< requested results
  std::vector<Update> updates{};

  [[nodiscard]] const Value& value(ValueId id) const { return values[id]; }
  [[nodiscard]] std::span<const ValueId> inputs_of(const Node& node) const {
    return std::span(operands).subspan(node.operands, node.inputs);
  }
  [[nodiscard]] std::span<const ValueId> outputs_of(const Node& node) const {
    return std::span(operands).subspan(node.operands + node.inputs, node.outputs);
  }

  ValueId add_value(const Value& value);
  /// `node` without its operands.
  void add_node(Node node, std::span<const ValueId> inputs, std::span<const ValueId> outputs);
};

/// Values and nodes keep their numbers.
[[nodiscard]] Outline outline_of(const Graph& graph);

/// Whether the op adds its inputs: `add`, or a fused node of nothing else.
[[nodiscard]] bool is_sum(const Op& op, const Attributes& attributes);

/// A node's row of an outline, without its operands.
[[nodiscard]] Outline::Node outline_node(const Node& node);

}  // namespace trireme
