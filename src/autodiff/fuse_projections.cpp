// Replaces the three products of one x that an attention needs, with biases or rotations if any,
//
//   q, k, v = einsum(x, wq), einsum(x, wk), einsum(x, wv)      add of a bias, rope of q and k
//   y, lse = attention(q, k, v)
//   dq, dk, dv = attention_backward(dy, q, k, v, y, lse)       rope of dq and dk
//   dx = the sum of einsum(dq, wq), einsum(dk, wk), einsum(dv, wv)
//   dwq, dwk, dwv = einsum(x, dq), einsum(x, dk), einsum(x, dv), and the biases' gradients
//
// with one of each kind, on tensors that concatenate q, k and v along the heads:
//
//   qkv = einsum(x, concat(wq, wk, wv))                        add of concat(bq, bk, bv), rope of the first heads
//   y, lse = attention_packed(qkv)
//   dqkv = attention_packed_backward(dy, qkv, y, lse)          rope of the first heads
//   dx = einsum(dqkv, concat(wq, wk, wv))
//   dwq, dwk, dwv = slices of einsum(x, dqkv); likewise the biases' gradients
//
// projections.cpp finds them.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/projections.h"
#include "autodiff/rebuild.h"
#include "graph/einsum.h"
#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme {
namespace {

/// Adds the packed nodes of one projection.
class ProjectionPacker {
 public:
  ProjectionPacker(const Graph& graph, Rebuild& rebuild, const Projection& projection)
      : graph_(graph), rebuild_(rebuild), values_(projection.values), packed_(values_.size()) {}

  void add(const PackedStep& step) {
    using Kind = PackedStep::Kind;
    builder().set_phase(first(step).phase);
    builder().set_block(first(step).block);
    switch (step.kind) {
      case Kind::Product:
        return make(step, "einsum", {rebuild_.now(first(step).inputs[0]), weights(step)});
      case Kind::Bias:
        return make(step, "add", {packed_[step.operand], packed_operands(step, 1, 0)});
      case Kind::Rotation:
        return rotate(step);
      case Kind::Attention:
        return attend(step);
      case Kind::AttentionBackward:
        return attend_backward(step);
      case Kind::BiasGradient:
        return slice(step, copy(step, {packed_[step.operand]}), 0);
      case Kind::WeightGradient:
        return add_weight_gradient(step);
      case Kind::InputGradient:
        return add_input_gradient(step);
    }
  }

 private:
  GraphBuilder& builder() { return rebuild_.builder(); }
  [[nodiscard]] const Node& first(const PackedStep& step) const {
    return graph_.nodes()[step.nodes[0]];
  }
  [[nodiscard]] EinsumLetters letters(const PackedStep& step) const {
    return parse_equation(signature_of(graph_, first(step)));
  }
  [[nodiscard]] std::int64_t heads(const PackedStep& step, std::size_t part) const {
    return graph_.value(values_[step.operand].parts[part]).type.shape.dim(kHeadAxis);
  }

  /// A node like the first of the step.
  ValueId copy(const PackedStep& step, std::vector<ValueId> inputs) {
    return builder().copy(first(step), std::move(inputs)).front();
  }
  void make(const PackedStep& step, std::string_view op, std::vector<ValueId> inputs) {
    keep(step, builder().add1(op, std::move(inputs), first(step).attributes));
  }
  void keep(const PackedStep& step, ValueId result) {
    packed_[step.result] = result;
    name(result, values_[step.result].parts[0]);
  }

  /// After the first of those that it holds.
  void name(ValueId packed, ValueId first_part) {
    builder().rename(packed, graph_.value(first_part).name + ".packed");
  }

  /// The concatenation of this operand of the three nodes.
  ValueId packed_operands(const PackedStep& step, std::size_t operand, std::size_t axis) {
    std::vector<ValueId> parts;
    for (const std::size_t n : step.nodes) {
      parts.push_back(rebuild_.now(graph_.nodes()[n].inputs[operand]));
    }
    return builder().add1("concat", std::move(parts), {{"axis", static_cast<std::int64_t>(axis)}});
  }
  /// The weights of products whose first operand or result has the heads.
  ValueId weights(const PackedStep& step) {
    const EinsumLetters found = letters(step);
    const char head = (step.kind == PackedStep::Kind::Product ? found.result : found.a)[kHeadAxis];
    return packed_operands(step, 1, found.b.find(head));
  }

  void rotate(const PackedStep& step) {
    Attributes attributes = first(step).attributes;
    attributes["heads"] = heads(step, 0) + heads(step, 1);
    keep(step, builder().add1("rope", {packed_[step.operand]}, std::move(attributes)));
  }

  [[nodiscard]] Attributes attention_attributes(const PackedStep& step) const {
    Attributes attributes = first(step).attributes;
    attributes["heads"] = heads(step, 0);
    return attributes;
  }
  void attend(const PackedStep& step) {
    const std::vector<ValueId> results =
        builder().add("attention_packed", {packed_[step.operand]}, attention_attributes(step));
    for (std::size_t k = 0; k < results.size(); ++k) {
      replace(first(step).outputs[k], results[k]);
    }
  }
  void attend_backward(const PackedStep& step) {
    const std::vector<ValueId>& in = first(step).inputs;
    keep(step, builder().add1("attention_packed_backward",
                              {rebuild_.now(in[0]), packed_[step.operand], rebuild_.now(in[4]),
                               rebuild_.now(in[5])},
                              attention_attributes(step)));
  }

  void add_weight_gradient(const PackedStep& step) {
    const EinsumLetters found = letters(step);
    const bool is_first = first(step).inputs[0] == values_[step.operand].parts[0];
    std::vector<ValueId> inputs{packed_[step.operand], packed_[step.operand]};
    inputs[is_first ? 1 : 0] = rebuild_.now(first(step).inputs[is_first ? 1 : 0]);
    const std::size_t axis = found.result.find((is_first ? found.a : found.b)[kHeadAxis]);
    slice(step, copy(step, std::move(inputs)), axis);
  }
  void add_input_gradient(const PackedStep& step) {
    replace(step.sum, copy(step, {packed_[step.operand], weights(step)}));
  }

  /// The results of the step's nodes, concatenated along the axis.
  void slice(const PackedStep& step, ValueId whole, std::size_t axis) {
    name(whole, first(step).outputs[0]);
    std::vector<std::int64_t> begin(builder().shape(whole).dims().size(), 0);
    std::vector<std::int64_t> end = builder().shape(whole).dims();
    for (const std::size_t n : step.nodes) {
      const ValueId old = graph_.nodes()[n].outputs[0];
      end[axis] = begin[axis] + graph_.value(old).type.shape.dims()[axis];
      replace(old, builder().add1("slice", {whole}, {{"begin", begin}, {"end", end}}));
      begin[axis] = end[axis];
    }
  }

  void replace(ValueId old, ValueId by) {
    builder().rename(by, graph_.value(old).name);
    rebuild_.replace(old, by);
  }

  const Graph& graph_;  // these three are the caller's
  Rebuild& rebuild_;
  const std::vector<PackedValue>& values_;
  std::vector<ValueId> packed_;  ///< of the new graph, by index
};

}  // namespace

Graph fuse_projections(const Graph& graph) {
  const Projections found = find_projections(graph);
  Rebuild rebuild(graph);
  std::vector<ProjectionPacker> packers;
  std::multimap<std::size_t, std::pair<ProjectionPacker*, const PackedStep*>> steps;
  packers.reserve(found.all.size());
  for (const Projection& projection : found.all) {
    packers.emplace_back(graph, rebuild, projection);
    for (const auto& [at, step] : projection.steps) {
      steps.emplace(at, std::pair(&packers.back(), &step));
    }
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const auto [begin, end] = steps.equal_range(n);
    for (auto it = begin; it != end; ++it) {
      it->second.first->add(*it->second.second);
    }
    if (!found.is_fused[n]) {
      rebuild.copy(graph.nodes()[n]);
    }
  }
  return rebuild.finish();
}

}  // namespace trireme
