// attention_packed: the attention of attention.cpp with q, k and v in one tensor, concatenated along the heads:
// qkv[B,T,H+2G,D] has H heads of q, then G of k, then G of v. One product computes it from x; the backward yields the
// gradient of all three, from which one product computes that of x. A pass creates these nodes on the graph of a rank,
// after partitioning. Queries need the keys of the whole sequence, and each operand's heads start at a different
// offset, so only B can be sharded.
//
//   attention_packed           qkv -> y[B,T,H,D], lse[B,H,T]
//   attention_packed_backward  dy, qkv, y, lse -> dqkv
#include <algorithm>
#include <array>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::attention_packed {
namespace {

/// The heads of q, of k and of v.
std::array<std::int64_t, 3> heads_of(const Signature& s, std::size_t qkv) {
  rules::require_rank(s, qkv, 4);
  const std::int64_t queries = s.integer("heads");
  const std::int64_t others = s.shape(qkv).dim(2) - queries;
  s.require(queries >= 0 && others >= 0 && others % 2 == 0,
            "qkv must have the heads of q, and as many of k as of v");
  return {queries, others / 2, others / 2};
}

/// The node of `op` with separate q, k and v: its types and this node's attributes.
Signature apart(const Signature& s, std::string_view op, std::size_t qkv) {
  Signature result{.op = &op_named(op), .inputs = {}, .attributes = s.attributes};
  for (std::size_t k = 0; k < s.inputs.size(); ++k) {
    if (k != qkv) {
      result.inputs.push_back(s.inputs[k]);
      continue;
    }
    for (const std::int64_t heads : heads_of(s, qkv)) {
      const Shape& shape = s.shape(qkv);
      result.inputs.push_back(
          {s.inputs[qkv].dtype, Shape{shape.dim(0), shape.dim(1), heads, shape.dim(3)}});
    }
  }
  return result;
}
Signature forward_of(const Signature& s) {
  return apart(s, "attention", 0);
}
Signature backward_of(const Signature& s) {
  return apart(s, "attention_backward", 1);
}

std::vector<TensorType> infer(const Signature& s) {
  const Signature whole = forward_of(s);
  return whole.op->infer(whole);
}

std::vector<TensorType> infer_backward(const Signature& s) {
  const Signature whole = backward_of(s);
  (void)whole.op->infer(whole);
  return {s.inputs[1]};
}

constexpr const char* kWhole = "twhd";  // w: the heads of all three

Factors factors(const Signature& s) {
  return rules::factors_by_letters(s, {{"btwd"}, {"bthd", "bht"}, kWhole});
}
Factors factors_backward(const Signature& s) {
  return rules::factors_by_letters(s, {{"bthd", "btwd", "bthd", "bht"}, {"btwd"}, kWhole});
}

Work work_like(const Signature& s, const Signature& whole) {
  Work work = whole.op->work(whole);
  work.bytes = rules::bytes_of_operands(s);
  return work;
}
Work work(const Signature& s) {
  return work_like(s, forward_of(s));
}
Work work_backward(const Signature& s) {
  return work_like(s, backward_of(s));
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {q.builder.add1("attention_packed_backward",
                         {q.outputs[0], q.node.inputs[0], q.node.outputs[0], q.node.outputs[1]},
                         q.node.attributes)};
}

/// Calls f with the places, in the packed tensor and in its part, of each position's heads, from head `first` on.
template <class F>
void for_each_position(const Shape& packed, const Shape& part, std::int64_t first, F f) {
  for (std::int64_t row = 0; row < packed.dim(0) * packed.dim(1); ++row) {
    f((row * packed.dim(2) + first) * packed.dim(3), row * part.dim(2) * part.dim(3),
      part.dim(2) * part.dim(3));
  }
}

/// q, k and v.
std::vector<Dense> unpacked(const Dense& packed, std::span<const TensorType> types) {
  std::vector<Dense> parts;
  std::int64_t first = 0;
  for (const TensorType& type : types) {
    Dense& part = parts.emplace_back(type.shape);
    for_each_position(packed.shape, part.shape, first,
                      [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                        std::copy_n(packed.data.begin() + from, count, part.data.begin() + to);
                      });
    first += part.shape.dim(2);
  }
  return parts;
}

void pack(std::span<const Dense> parts, Dense& packed) {
  std::int64_t first = 0;
  for (const Dense& part : parts) {
    for_each_position(packed.shape, part.shape, first,
                      [&](std::int64_t to, std::int64_t from, std::int64_t count) {
                        std::copy_n(part.data.begin() + from, count, packed.data.begin() + to);
                      });
    first += part.shape.dim(2);
  }
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Signature whole = forward_of(s);
  whole.op->reference(whole, unpacked(in[0], whole.inputs), out);
}

void reference_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Signature whole = backward_of(s);
  const std::span<const TensorType> types = std::span(whole.inputs).subspan(1, 3);
  std::vector<Dense> operands = unpacked(in[1], types);
  operands.insert(operands.begin(), in[0]);
  operands.insert(operands.end(), {in[2], in[3]});
  std::vector<Dense> gradients;
  for (const TensorType& type : types) {
    gradients.emplace_back(type.shape);
  }
  whole.op->reference(whole, operands, gradients);
  pack(gradients, out[0]);
}

std::vector<AttributeRow> attributes() {
  return {{"heads", std::int64_t{1}, false},
          {"causal", std::int64_t{1}},
          {"scale", 0.0},
          {"start", std::vector<std::int64_t>()}};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "attention_packed",
           .summary = "attention of qkv[b,t,h+2g,d]: h heads of q, then g of k, then g of v",
           .inputs = {"qkv"},
           .outputs = {"y", "lse"},
           .attributes = attributes(),
           .infer = infer,
           .factors = factors,
           .work = work,
           .gradient = gradient,
           .reference = reference},
          {.name = "attention_packed_backward",
           .summary = "the gradient of attention_packed, its weights recomputed",
           .inputs = {"dy", "qkv", "y", "lse"},
           .outputs = {"dqkv"},
           .attributes = attributes(),
           .infer = infer_backward,
           .factors = factors_backward,
           .work = work_backward,
           .reference = reference_backward}};
}

}  // namespace trireme::ops::attention_packed
