// Op: what the system knows of one operation, as a row of data and small functions. Each op, or family of
// ops that differ in one formula, is one file in ops/; everything else asks the row.
//
// Rows are constant and live as long as the program.
#pragma once

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

/// A constant of an op. Without a default it must be given.
struct AttributeRow {
  std::string_view name;
  Attribute example;  ///< its type; the default, if it has one
  bool has_default = true;
};

/// A loop of the op: an index that runs over dimensions of its operands, as a letter does in an einsum.
/// Splitting a factor over devices splits every dimension that it stands in. An output in which a split
/// factor does not stand is then incomplete: each device has a part of the sum (or maximum).
struct Factor {
  std::int64_t size = 0;
  enum class Split : std::uint8_t {
    Free,     ///< any part of it can be computed alone
    Never,    ///< each device needs all of it: the row of a soft-max, the pixels of a convolution
    Maximum,  ///< as Free, but parts are put together by the maximum instead of the sum
    InTurn,   ///< as Never, but a device can have one part after the other: see Op::merge
  } split = Split::Free;
};

/// How the dimensions of an op's operands relate.
struct Factors {
  /// By dimension, the factors that it runs over, outermost first. None: nothing to split (its size is 1).
  using Dims = std::vector<std::vector<std::int32_t>>;
  std::vector<Factor> factors{};
  std::vector<Dims> inputs{};
  std::vector<Dims> outputs{};
};

/// What an op may do with inputs of which each device has a part of the sum.
enum class Linear : std::uint8_t {
  No,     ///< nothing: relu(a + b) is not relu(a) + relu(b)
  Each,   ///< pass one of them on, the others being whole: einsum
  Joint,  ///< pass them on if all are parts: add
  Apart,  ///< take the parts along the axis that the attribute `axis` names for its result's: parts
};

/// What a node costs at least.
struct Work {
  double products = 0;  ///< FLOPs of multiply-adds in matrix products, convolutions, attention
  double causal = 0;    ///< of those, the share that a causal mask makes superfluous
  double again = 0;     ///< of the products, the share that the forward did already
  double others = 0;    ///< FLOPs besides
  double bytes = 0;     ///< operands read once, results written once
};

/// A tensor of doubles: what references compute on. Whatever the element type, reading is exact.
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
  /// One line for people, with shapes: "y[..,n] = x[..,k] w[k,n]".
  std::string_view summary{};
  std::vector<std::string_view> inputs{};  ///< names; the last may end in "..." for one or more
  std::vector<std::string_view> outputs{};
  std::vector<AttributeRow> attributes{};

  /// The results' types, or refuse().
  std::vector<TensorType> (*infer)(const Signature&) = nullptr;
  Factors (*factors)(const Signature&) = nullptr;
  Linear linear = Linear::No;
  /// The constants of the node that computes a part, where they hold a size or a place: a reshape's shape, the
  /// position that a part of a sequence begins at. Ranges are what it has of each factor. No function: they are the
  /// same for all parts.
  Attributes (*part)(const Signature& whole, std::span<const Stretch> ranges) = nullptr;
  /// Of an op with a factor that is split InTurn: the op that puts results together in which the factor does not
  /// stand. It takes those of some parts and then those of another, and gives as many. Parts that are no work add
  /// nothing to them; results in which the factor does stand are 0 there.
  std::string_view merge{};
  /// Exchanges with other ranks: no device has a kernel for it, and there is no reference.
  bool communicates = false;
  Work (*work)(const Signature&) = nullptr;
  /// The gradient of each input that is wanted, else invalid. No function: no gradient flows through.
  std::vector<ValueId> (*gradient)(GradientQuery&) = nullptr;
  /// The gradient takes the gradients of the first so many results; the others, such as the statistics of a
  /// norm, are for the backward alone and must not reach the loss.
  std::size_t smooth_outputs = 1;
  /// Results that may be written over an input, if nobody needs it afterwards. Element i of the result must
  /// then depend on no element of that input but i, or on elements that are read before any is written.
  struct InPlace {
    std::size_t output;
    std::size_t input;
  };
  std::vector<InPlace> in_place{};
  /// The result is the input's memory, seen differently: nothing runs.
  bool is_view = false;
  /// The plainest computation, in f64. `outputs` have their shapes.
  void (*reference)(const Signature&, std::span<const Dense> inputs,
                    std::span<Dense> outputs) = nullptr;
};

/// Nothing if there is none of this name.
[[nodiscard]] const Op* find_op(std::string_view name);
/// Throws Error(Usage) that names the nearest.
[[nodiscard]] const Op& op_named(std::string_view name);
/// In the order of their names.
[[nodiscard]] const std::vector<const Op*>& all_ops();

[[nodiscard]] Signature signature_of(const Graph& graph, const Node& node);
[[nodiscard]] Work work_of(const Graph& graph, const Node& node);
[[nodiscard]] Factors factors_of(const Graph& graph, const Node& node);

}  // namespace trireme
