// Graph: a computation as data: nodes over typed tensors, in a valid execution order, on one logical device. Immutable
// once built; problems() describes errors; the text form prints and parses back.
//
//   graph mlp {
//     input %x: f32[8,16]
//     parameter %w: f32[16,4]
//     %h: f32[8,4] = einsum(%x, %w) equation="bi,ij->bj"
//     %y: f32[8,4] = relu(%h)
//     output y = %y
//   }
//
// A node has no side effects: an optimizer's node yields the new parameter value, and an update of the graph makes it
// the parameter's value from the next step on. All functions may be called from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/tensor.h"
#include "trireme/valid.h"

namespace trireme {

/// The element type and the shape of a value.
struct TensorType {
  DType dtype = DType::F32;
  Shape shape{};
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[2,3]"; parse_type reads it back. Throws Error(Usage).
[[nodiscard]] std::string to_text(const TensorType& type);
[[nodiscard]] TensorType parse_type(std::string_view text);
[[nodiscard]] Bytes size_of(const TensorType& type);

/// Index into a graph's list of values or nodes. Valid for that graph only.
struct ValueId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};
struct NodeId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

/// Constants of a node, by name. The op's row defines their names and defaults.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// Where a value comes from.
enum class Origin : std::uint8_t {
  Input,      ///< supplied for each step: tokens, the learning rate
  Parameter,  ///< trained; kept between steps
  State,      ///< kept between steps, not trained: an optimizer's moments
  Node,       ///< computed
};
/// "input", "parameter", "state", "node".
[[nodiscard]] std::string_view to_text(Origin origin);

/// The part of a training step that a node belongs to.
enum class Phase : std::uint8_t { Forward, Recompute, Backward, Update };
[[nodiscard]] std::string_view to_text(Phase phase);

/// A tensor of the graph. Names are unique: letters, digits, '_', '.', '/' and '-'.
struct Value {
  std::string name{};
  TensorType type{};
  Origin origin = Origin::Node;
  NodeId producer{};  ///< if computed by a node
};

struct Op;  // an op's row; see trireme/op.h

struct Node {
  const Op* op = nullptr;
  std::vector<ValueId> inputs{};
  std::vector<ValueId> outputs{};
  Attributes attributes{};
  Phase phase = Phase::Forward;
  /// The model block that the node belongs to, such as a transformer layer. Recomputation and pipeline stages split the
  /// model between blocks. -1: none.
  std::int32_t block = -1;
};

/// A requested result.
struct Output {
  std::string name{};
  ValueId value{};
};

/// At the end of a step `target`, a parameter or state, becomes `value`.
struct Update {
  ValueId target{};
  ValueId value{};
};

class Graph {
 public:
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<Value>& values() const noexcept { return values_; }
  /// In a valid execution order.
  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] const std::vector<Update>& updates() const noexcept { return updates_; }

  [[nodiscard]] const Value& value(ValueId id) const { return values_.at(id.index); }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_.at(id.index); }
  /// Throws Error(Usage) naming the nearest match if there is no value, or output, of this name.
  [[nodiscard]] ValueId find(std::string_view value_name) const;
  [[nodiscard]] ValueId output(std::string_view output_name) const;
  [[nodiscard]] std::vector<ValueId> with_origin(Origin origin) const;

  /// Whether both have the same text.
  friend bool operator==(const Graph& a, const Graph& b);

 private:
  friend class GraphBuilder;
  std::string name_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
};

/// The first error, in words that name the node, the actual and the expected: types that do not follow from the op's
/// rule, uses before definitions, updates of values that are not kept, … Empty if the graph is valid.
[[nodiscard]] std::vector<std::string> problems(const Graph& graph);

[[nodiscard]] std::string to_text(const Graph& graph);
/// Throws Error(Input) with the line.
[[nodiscard]] Graph parse_graph(std::string_view text);

/// Builds a graph node by node. Result types follow from the ops' rules.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  /// Extends an existing graph; its ids stay valid.
  explicit GraphBuilder(Graph graph);

  ValueId input(std::string_view name, TensorType type);
  ValueId parameter(std::string_view name, TensorType type);
  ValueId state(std::string_view name, TensorType type);

  /// Adds a node and returns its results, as many as the op has. Throws Error(Usage) naming the op, its inputs' types
  /// and the violated rule.
  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs,
                           Attributes attributes = {});
  /// The same for an op with one result.
  ValueId add1(std::string_view op, std::vector<ValueId> inputs, Attributes attributes = {});
  /// A copy of a node with other inputs and new results.
  std::vector<ValueId> copy(const Node& node, std::vector<ValueId> inputs);

  /// Gives the newest results readable names instead of numbers. A name that is taken gets a numeric suffix.
  void rename(ValueId value, std::string_view name);
  /// The phase and block of the nodes that follow.
  void set_phase(Phase phase) noexcept { phase_ = phase; }
  void set_block(std::int32_t block) noexcept { block_ = block; }
  [[nodiscard]] std::int32_t block() const noexcept { return block_; }

  void output(std::string_view name, ValueId value);
  void update(ValueId target, ValueId value);

  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return type(id).shape; }
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// Returns the graph. Leaves the builder empty.
  [[nodiscard]] Graph finish();

 private:
  ValueId add_value(std::string_view name, TensorType type, Origin origin, NodeId producer);
  [[nodiscard]] std::string free_name(std::string_view preferred);

  Graph graph_;
  std::map<std::string, std::int32_t, std::less<>> names_;
  Phase phase_ = Phase::Forward;
  std::int32_t block_ = -1;
};

}  // namespace trireme
