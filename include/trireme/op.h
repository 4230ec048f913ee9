// Op: the properties of one operation, as a row of data and small functions. Each op, or family of ops that differ in
// one formula, is one file in src/graph/ops/; all other code consults the row. A program adds its own with register_op().
//
// Rows are constant and have static lifetime. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph.h"

namespace trireme {

/// A node's inputs and constants, as the functions of its row see them.
struct Signature {
  const Op* op = nullptr;
  std::vector<TensorType> inputs{};
  const Attributes* attributes = nullptr;  ///< all of the row's, defaults filled in

  [[nodiscard]] const Shape& shape(std::size_t input) const { return inputs.at(input).shape; }
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const { return integer(name) != 0; }
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view name) const;

  /// Throws Error(Usage): "layer_norm(x: f32[2,3], gamma: f32[4]): " and the reason.
  [[noreturn]] void refuse(const std::string& reason) const;
  void require(bool holds, const std::string& reason) const {
    if (!holds) {
      refuse(reason);
    }
  }
};

/// A constant of an op. Required if it has no default.
struct AttributeRow {
  std::string_view name;
  Attribute example;  ///< its type; the default, if there is one
  bool has_default = true;
};

/// A loop of the op: an index that runs over dimensions of its operands, like a letter in an einsum. Sharding a factor
/// over devices shards every dimension in which it appears. An output in which a sharded factor does not appear is then
/// partial: each device has a term of the sum (or maximum).
struct Factor {
  std::int64_t size = 0;
  enum class Split : std::uint8_t {
    Free,     ///< any part of it can be computed independently
    Never,    ///< each device needs all of it: the row of a softmax, the pixels of a convolution
    Maximum,  ///< like Free, but parts are combined by maximum instead of sum
    InTurn,   ///< like Never, but a device can process one part at a time: see Op::merge
  } split = Split::Free;
};
[[nodiscard]] std::string_view to_text(Factor::Split split);

/// How the dimensions of an op's operands relate.
struct Factors {
  /// By dimension, the factors that it runs over, outermost first. Empty: nothing to shard (its size is 1).
  using Dims = std::vector<std::vector<std::int32_t>>;
  std::vector<Factor> factors{};
  std::vector<Dims> inputs{};
  std::vector<Dims> outputs{};
};

/// How an op may treat partial inputs, of which each device has a term of the sum.
enum class Linear : std::uint8_t {
  No,     ///< nothing: relu(a + b) is not relu(a) + relu(b)
  Each,   ///< propagate one partial input if the others are complete: einsum
  Joint,  ///< propagate if all are partial: add
  Apart,  ///< turn the terms along the attribute `axis` into a dimension of the result: parts
};
[[nodiscard]] std::string_view to_text(Linear linear);

/// The minimum cost of a node.
struct Work {
  double products = 0;  ///< FLOPs of multiply-adds in matrix products, convolutions, attention
  double causal = 0;    ///< of those, the share that a causal mask makes unnecessary
  double repeated = 0;  ///< of the products, the share that repeats forward work
  double others = 0;    ///< other FLOPs
  double bytes = 0;     ///< operands read once, results written once
};

/// A tensor of doubles, for reference implementations. Reading is exact for every element type.
struct Dense {
  Shape shape{};
  std::vector<double> data{};
  Dense() = default;
  explicit Dense(const Shape& of)
      : shape(of), data(static_cast<std::size_t>(of.element_count()), 0.0) {}
};

/// What the gradient of a node is built from.
struct GradientQuery {
  GraphBuilder& builder;
  Node node;                     ///< a copy: the builder's own may move
  std::vector<ValueId> outputs;  ///< gradients of the node's results; invalid: nothing flows back
  std::vector<bool> wanted;      ///< by input
};

struct Op {
  std::string_view name{};
  /// One line with shapes, for display: "y[..,n] = x[..,k] w[k,n]".
  std::string_view summary{};
  std::vector<std::string_view> inputs{};  ///< names; the last may end in "..." for one or more
  std::vector<std::string_view> outputs{};
  std::vector<AttributeRow> attributes{};

  /// The results' types, or refuse().
  std::vector<TensorType> (*infer)(const Signature&) = nullptr;
  Factors (*factors)(const Signature&) = nullptr;
  Linear linear = Linear::No;
  /// The attributes of the node that computes a shard, if they include a size or an offset: a reshape's shape, the
  /// start position of a sequence shard. The ranges are the shard's parts of each factor. nullptr: they are the same
  /// for all shards.
  Attributes (*part)(const Signature& whole, std::span<const IndexRange> ranges) = nullptr;
  /// For an op with an InTurn factor: the op that merges results in which the factor does not appear. It takes the
  /// results of some parts, then the results of another part, and returns as many. Parts without work contribute
  /// nothing; results in which the factor does appear are 0 there.
  std::string_view merge{};
  /// Communicates with other ranks: no device has a kernel for it, and there is no reference.
  bool communicates = false;
  Work (*work)(const Signature&) = nullptr;
  /// The gradient of each wanted input, else invalid. nullptr: no gradient flows through.
  std::vector<ValueId> (*gradient)(GradientQuery&) = nullptr;
  /// The gradient rule uses the gradients of this many leading results; the others, such as the statistics of a norm,
  /// are only for the backward and must not reach the loss.
  std::size_t smooth_outputs = 1;
  /// Results that may overwrite an input, if nothing needs it afterwards. Element i of the result must depend on no
  /// element of that input but i, or on elements that are read before any is written.
  struct InPlace {
    std::size_t output;
    std::size_t input;
  };
  std::vector<InPlace> in_place{};
  /// The result is a view of the input's memory: nothing runs.
  bool is_view = false;
  /// The simplest implementation, in f64. `outputs` have their shapes.
  void (*reference)(const Signature&, std::span<const Dense> inputs,
                    std::span<Dense> outputs) = nullptr;
};

/// nullptr if there is no op with this name.
[[nodiscard]] const Op* find_op(std::string_view name);
/// Throws Error(Usage) naming the nearest match.
[[nodiscard]] const Op& op_named(std::string_view name);
/// The built-in ops, sorted by name.
[[nodiscard]] const std::vector<const Op*>& all_ops();
[[nodiscard]] bool is_built_in(const Op& op);

/// Registers a custom op; call it before building a graph that uses it. The CPU device runs its reference. Its strings
/// must have static lifetime. Throws Error(Usage) if the row is incomplete or the name is taken.
const Op& register_op(Op op);

/// A node to compute, as a device sees it; `attributes` has all of the row's.
struct ReferenceCall {
  const Op& op;
  const Attributes& attributes;
  const std::vector<TensorType>& inputs;
  const std::vector<TensorType>& outputs;
};
/// Computes a node with its op's reference, from operands in memory of any type: a new backend starts with this, and
/// replaces it kernel by kernel. Slow, and it allocates.
void run_reference(const ReferenceCall& call, std::span<const std::byte* const> inputs,
                   std::span<std::byte* const> outputs);

[[nodiscard]] Signature signature_of(const Graph& graph, const Node& node);
[[nodiscard]] Work work_of(const Graph& graph, const Node& node);
[[nodiscard]] Factors factors_of(const Graph& graph, const Node& node);

}  // namespace trireme
