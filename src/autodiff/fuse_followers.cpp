// Fuses nodes with their followers if no other node needs the intermediate results:
//
//   einsum, add of a bias                     einsum_bias
//   einsum, add of a bias, gelu               einsum_bias_gelu, which keeps gelu's operand for the backward
//   einsum, add of a bias, add of a tensor    einsum_bias_add
//   einsum, add of a tensor                   einsum_add
//   einsum, gelu_backward                     einsum_gelu_backward
//   layer_norm_backward, add                  layer_norm_backward_add; rms_norm likewise
//   adamw, cast of the new parameter          adamw_rounded
//
// The new node takes the place of the last one, so its operands exist.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/readers.h"
#include "autodiff/rebuild.h"
#include "graph/product_view.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// A node that replaces others. Values are those of the old graph.
struct Replacement {
  std::string op{};
  std::vector<ValueId> inputs{};
  Attributes attributes{};
  std::vector<ValueId> outputs{};
};

class FollowerFusion {
 public:
  FollowerFusion(const Graph& graph, const Fusions& wanted)
      : graph_(graph),
        wanted_(wanted),
        readers_(graph),
        replaced_(graph.nodes().size()),
        is_fused_(graph.nodes().size(), false) {}

  Graph run() {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (!is_taken(n)) {
        fuse(n);
      }
    }
    Rebuild rebuild(graph_);
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (replaced_[n]) {
        add(rebuild, graph_.nodes()[n], *replaced_[n]);
      } else if (!is_fused_[n]) {
        rebuild.copy(graph_.nodes()[n]);
      }
    }
    return rebuild.finish();
  }

 private:
  [[nodiscard]] const Node& node(std::size_t n) const { return graph_.nodes()[n]; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  [[nodiscard]] bool is_taken(std::size_t n) const { return is_fused_[n] || replaced_[n]; }

  void add(Rebuild& rebuild, const Node& last, const Replacement& by) const {
    rebuild.builder().set_phase(last.phase);
    rebuild.builder().set_block(last.block);
    const std::vector<ValueId> results =
        rebuild.builder().add(by.op, rebuild.now(by.inputs), by.attributes);
    for (std::size_t k = 0; k < results.size(); ++k) {
      rebuild.builder().rename(results[k], graph_.value(by.outputs[k]).name);
      rebuild.replace(by.outputs[k], results[k]);
    }
  }

  void fuse(std::size_t n) {
    const std::string_view op = node(n).op->name;
    if (op == "einsum" && wanted_.products && is_product(n)) {
      fuse_product(n);
    } else if ((op == "layer_norm_backward" || op == "rms_norm_backward") && wanted_.norms) {
      fuse_norm(n);
    } else if (op == "adamw" && wanted_.updates) {
      fuse_update(n);
    }
  }

  [[nodiscard]] bool is_product(std::size_t n) const {
    return product_view(signature_of(graph_, node(n))).has_value();
  }

  /// The only reader of the value, if it is a node of this op that nothing has replaced.
  [[nodiscard]] std::optional<std::size_t> follower(ValueId value, std::string_view op) const {
    const std::optional<std::size_t> reader = readers_.only(value);
    return reader && node(*reader).op->name == op && !is_taken(*reader) ? reader : std::nullopt;
  }
  /// The other operand of an `add`.
  [[nodiscard]] ValueId other_operand(std::size_t sum, ValueId one) const {
    return node(sum).inputs[node(sum).inputs[0] == one ? 1 : 0];
  }
  /// The `add` of the value and another of its type.
  [[nodiscard]] std::optional<std::size_t> sum_of(ValueId value) const {
    const std::optional<std::size_t> sum = follower(value, "add");
    return sum && type(other_operand(*sum, value)) == type(value) ? sum : std::nullopt;
  }

  void replace(std::size_t last, Replacement by, std::initializer_list<std::size_t> gone) {
    replaced_[last] = std::move(by);
    for (const std::size_t n : gone) {
      is_fused_[n] = true;
    }
  }
  /// This one of these nodes' operands and attributes, with more operands.
  [[nodiscard]] Replacement extended(std::size_t n, std::string op, std::vector<ValueId> more,
                                     std::vector<ValueId> outputs) const {
    Replacement by{std::move(op), node(n).inputs, node(n).attributes, std::move(outputs)};
    by.inputs.insert(by.inputs.end(), more.begin(), more.end());
    return by;
  }

  void fuse_product(std::size_t n) {
    const ValueId y = node(n).outputs[0];
    if (const auto sum = sum_of(y)) {
      replace(*sum, extended(n, "einsum_add", {other_operand(*sum, y)}, {node(*sum).outputs[0]}),
              {n});
    } else if (const auto biased = follower(y, "add"); biased && node(*biased).inputs[0] == y) {
      fuse_bias(n, *biased);
    } else if (const auto back = follower(y, "gelu_backward"); back && node(*back).inputs[1] == y) {
      replace(
          *back,
          extended(n, "einsum_gelu_backward", {node(*back).inputs[0]}, {node(*back).outputs[0]}),
          {n});
    }
  }

  void fuse_bias(std::size_t n, std::size_t biased) {
    const ValueId bias = node(biased).inputs[1];
    const ValueId x = node(biased).outputs[0];
    if (const auto sum = sum_of(x)) {
      replace(
          *sum,
          extended(n, "einsum_bias_add", {bias, other_operand(*sum, x)}, {node(*sum).outputs[0]}),
          {n, biased});
    } else if (const auto gelu = first_gelu(x)) {
      replace(*gelu, extended(n, "einsum_bias_gelu", {bias}, {node(*gelu).outputs[0], x}),
              {n, biased});
    } else {
      replace(biased, extended(n, "einsum_bias", {bias}, {x}), {n});
    }
  }

  /// The value's first reader, if it is a gelu: all others read the operand that the fused node keeps.
  [[nodiscard]] std::optional<std::size_t> first_gelu(ValueId x) const {
    const std::vector<std::size_t>& readers = readers_.of(x);
    const bool found =
        !readers.empty() && node(readers.front()).op->name == "gelu" && !is_taken(readers.front());
    return found ? std::optional(readers.front()) : std::nullopt;
  }

  void fuse_norm(std::size_t n) {
    const ValueId dx = node(n).outputs[0];
    const auto sum = sum_of(dx);
    const auto reads_after = [&](ValueId value) {
      return readers_.of(value).empty() || readers_.of(value).front() > *sum;
    };
    if (!sum || !std::all_of(node(n).outputs.begin() + 1, node(n).outputs.end(), reads_after)) {
      return;
    }
    std::vector<ValueId> outputs = node(n).outputs;
    outputs[0] = node(*sum).outputs[0];
    replace(*sum,
            extended(n, std::string(node(n).op->name) + "_add", {other_operand(*sum, dx)}, outputs),
            {n});
  }

  /// All readers of the new parameter must come after the cast.
  void fuse_update(std::size_t n) {
    const std::vector<std::size_t>& readers = readers_.of(node(n).outputs[0]);
    const bool rounds =
        !readers.empty() && node(readers.front()).op->name == "cast" && !is_taken(readers.front());
    if (!rounds || !is_float(type(node(readers.front()).outputs[0]).dtype)) {
      return;
    }
    const std::size_t cast = readers.front();
    for (std::size_t k = 1; k < node(n).outputs.size(); ++k) {
      const std::vector<std::size_t>& others = readers_.of(node(n).outputs[k]);
      if (!others.empty() && others.front() < cast) {
        return;
      }
    }
    std::vector<ValueId> outputs = node(n).outputs;
    outputs.push_back(node(cast).outputs[0]);
    Replacement by = extended(n, "adamw_rounded", {}, outputs);
    by.attributes["to"] = node(cast).attributes.at("to");
    replace(cast, std::move(by), {n});
  }

  const Graph& graph_;
  const Fusions& wanted_;  // owned by the caller for the duration of the call
  Readers readers_;
  std::vector<std::optional<Replacement>> replaced_;  ///< by node: the last of those replaced
  std::vector<bool> is_fused_;                        ///< by node: fused into another
};

}  // namespace

Graph fuse_followers(const Graph& graph, const Fusions& wanted) {
  return FollowerFusion(graph, wanted).run();
}

Graph fuse_for(const Graph& graph, const Fusions& wanted) {
  Graph fused = wanted.classifier ? fuse_classifier(graph) : graph;
  if (wanted.projections) {
    fused = fuse_projections(fused);
  }
  if (wanted.products || wanted.norms || wanted.updates) {
    fused = fuse_followers(fused, wanted);
  }
  return fuse_elementwise(fused);
}

}  // namespace trireme
