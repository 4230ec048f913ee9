// Experts: dispatches tokens to the experts that a router chose for them, and combines the results. Tokens come in G
// routing groups (the sequences of a batch) of N, each token with K choices; each of E experts has capacity for C
// tokens of a group (dropless: C = N).
//
//   expert_slots:    indices[g,n,k] -> slots[g,n,k] = expert C + position, or -1: the expert is full
//   expert_dispatch: y[e,g,c,:] = the sum of x[g,n,:] over the choices with slots[g,n,k] = e C + c
//   expert_combine:  out[g,n,:] = the sum over k of gates[g,n,k] y[e,g,c,:] where slots[g,n,k] = e C + c,
//                    without dropped choices
//   expert_load:     counts[e] = the number of choices of e, for the balance loss
//
// In a group, slots go to the first choices of all tokens, in order, then to the second choices, and so on, as in
// GShard: a token's second choice never displaces another's first. Each slot is assigned once, so that a row of a
// dispatch is one token, or zeros if the slot is empty. load[g,e] counts all choices of e in a group; those past C are
// dropped.
//
// Sharding. Slots depend only on the tokens of the group, so that groups can be on any device; that is their purpose.
// Given the slots, dispatch and combine are sums over tokens and choices, and any part of those can be computed
// independently. The experts cannot be sharded here: slots are numbered across all of them. Expert parallelism shards y
// by g on one side and by e on the other, with an all-to-all in between.
//
// y has the experts first so that their products use matrices of contiguous rows, [g c, h] for each e.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::experts {
namespace {

/// [G,N,K], integers.
void require_choices(const Signature& s, std::size_t input) {
  rules::require_integer(s, input);
  rules::require_rank(s, input, 3);
}

std::int64_t experts_of(const Signature& s) {
  s.require(s.integer("experts") >= 1, "there must be an expert");
  return s.integer("experts");
}

std::int64_t capacity_of(const Signature& s) {
  s.require(s.integer("capacity") >= 0, "the capacity must be 0 or more");
  return s.integer("capacity");
}

Work work_of_choices(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

std::int64_t expert_in(const Signature& s, const Dense& indices, std::size_t choice) {
  const auto expert = static_cast<std::int64_t>(indices.data[choice]);
  s.require(expert >= 0 && expert < s.integer("experts"),
            fmt::format("expert {} is out of range; there are {}", expert, s.integer("experts")));
  return expert;
}

// expert_slots: indices -> slots, load

std::vector<TensorType> infer_slots(const Signature& s) {
  require_choices(s, 0);
  (void)capacity_of(s);
  return {{DType::I32, s.shape(0)}, {DType::I32, {s.shape(0).dim(0), experts_of(s)}}};
}

/// The order of assignment depends on the whole group.
Factors slots_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"gnk"}, .outputs = {"gnk", "ge"}, .unshardable = "nke"});
}

void reference_slots(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t groups = size_of_dim(in[0], 0);
  const std::size_t tokens = size_of_dim(in[0], 1);
  const std::size_t choices = size_of_dim(in[0], 2);
  const std::size_t experts = s.integer("experts");
  const auto capacity = static_cast<double>(s.integer("capacity"));
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t k = 0; k < choices; ++k) {
      for (std::size_t n = 0; n < tokens; ++n) {
        const std::size_t choice = (g * tokens + n) * choices + k;
        const std::size_t expert = expert_in(s, in[0], choice);
        const double position = out[1].data[g * experts + expert]++;
        out[0].data[choice] =
            position < capacity ? static_cast<double>(expert) * capacity + position : -1;
      }
    }
  }
}

// expert_load: indices -> counts

std::vector<TensorType> infer_load(const Signature& s) {
  require_choices(s, 0);
  return {{DType::F32, {experts_of(s)}}};
}

/// Counts add up, over groups, tokens and choices.
Factors load_factors(const Signature& s) {
  return rules::factors_by_letters(s, {.inputs = {"gnk"}, .outputs = {"e"}, .unshardable = "e"});
}

void reference_load(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    ++out[0].data[expert_in(s, in[0], i)];
  }
}

// Shared by dispatch and combine.

/// A choice that was not dropped: its token among all, its index in [G,N,K], its row of y.
struct Kept {
  std::size_t token;
  std::size_t choice;
  std::int64_t row;
};

/// y is [E,G,C,H].
std::vector<Kept> kept_choices(const Signature& s, const Dense& slots, const Shape& y) {
  std::vector<Kept> kept;
  const std::int64_t groups = y.dim(1);
  const std::int64_t capacity = y.dim(2);
  const std::int64_t limit = y.dim(0) * capacity;
  const std::size_t choices = size_of_dim(slots, 2);
  const std::size_t choices_of_group = size_of_dim(slots, 1) * choices;
  for (std::size_t i = 0; i < slots.data.size(); ++i) {
    const auto slot = static_cast<std::int64_t>(slots.data[i]);
    s.require(slot >= -1 && slot < limit,
              fmt::format("slot {} is out of range; there are {}", slot, limit));
    if (slot >= 0) {
      const auto group = static_cast<std::int64_t>(i / choices_of_group);
      const std::int64_t row = (slot / capacity * groups + group) * capacity + slot % capacity;
      kept.push_back({i / choices, i, row});
    }
  }
  return kept;
}

/// This many FLOPs for each element of a row of H, a row for each choice.
Work work_of_rows(const Signature& s, const Shape& slots, std::int64_t h, int per_element) {
  return {
      .others = static_cast<double>(per_element) * static_cast<double>(slots.element_count() * h),
      .bytes = rules::bytes_of_operands(s)};
}

// expert_dispatch: x, slots -> y

std::vector<TensorType> infer_dispatch(const Signature& s) {
  const Shape& x = s.shape(0);
  rules::require_rank(s, 0, 3);
  require_choices(s, 1);
  s.require(rules::rows_of(x) == rules::rows_of(s.shape(1)), "there must be slots for each token");
  return {{s.inputs[0].dtype, {experts_of(s), x.dim(0), capacity_of(s), x.dim(2)}}};
}

Factors dispatch_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"gnh", "gnk"}, .outputs = {"egch"}, .unshardable = "ec"});
}

Work dispatch_work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference_dispatch(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t h = size_of_dim(in[0], 2);
  for (const Kept& kept : kept_choices(s, in[1], out[0].shape)) {
    for (std::size_t i = 0; i < h; ++i) {
      out[0].data[kept.row * h + i] += in[0].data[kept.token * h + i];
    }
  }
}

/// A combine with gates of 1.
std::vector<ValueId> dispatch_gradient(GradientQuery& q) {
  const ValueId slots = q.node.inputs[1];
  const DType dtype = q.builder.type(q.outputs[0]).dtype;
  const ValueId ones = q.builder.add1("fill", {},
                                      {{"value", 1.0},
                                       {"shape", q.builder.shape(slots).dims()},
                                       {"dtype", std::string(to_text(dtype))}});
  return {q.builder.add1("expert_combine", {q.outputs[0], slots, ones}), {}};
}

// expert_combine: y, slots, gates -> out

void require_experts(const Signature& s, std::size_t y, std::size_t slots, std::size_t gates) {
  rules::require_float(s, y);
  rules::require_rank(s, y, 4);
  require_choices(s, slots);
  s.require(s.shape(y).dim(1) == s.shape(slots).dim(0), "y and the slots must have as many groups");
  rules::require_same_dtype(s, y, gates);
  s.require(s.shape(gates) == s.shape(slots), "there must be a gate for each slot");
}

std::vector<TensorType> infer_combine(const Signature& s) {
  require_experts(s, 0, 1, 2);
  return {{s.inputs[0].dtype, {s.shape(1).dim(0), s.shape(1).dim(1), s.shape(0).dim(3)}}};
}

Factors combine_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"egch", "gnk", "gnk"}, .outputs = {"gnh"}, .unshardable = "ec"});
}

Work combine_work(const Signature& s) {
  return work_of_rows(s, s.shape(1), s.shape(0).dim(3), 2);
}

void reference_combine(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t h = size_of_dim(in[0], 3);
  for (const Kept& kept : kept_choices(s, in[1], in[0].shape)) {
    for (std::size_t i = 0; i < h; ++i) {
      out[0].data[kept.token * h + i] += in[2].data[kept.choice] * in[0].data[kept.row * h + i];
    }
  }
}

std::vector<ValueId> combine_gradient(GradientQuery& q) {
  const auto& in = q.node.inputs;
  const std::vector<ValueId> found =
      q.builder.add("expert_combine_backward", {q.outputs[0], in[0], in[1], in[2]});
  return {found[0], {}, found[1]};
}

// expert_combine_backward: dout, y, slots, gates -> dy, dgates

std::vector<TensorType> infer_combine_backward(const Signature& s) {
  require_experts(s, 1, 2, 3);
  rules::require_same_dtype(s, 0, 1);
  const Shape& slots = s.shape(2);
  s.require(s.shape(0) == Shape{slots.dim(0), slots.dim(1), s.shape(1).dim(3)},
            "dout must have a row as long as y's for each token");
  return {s.inputs[1], s.inputs[3]};
}

Factors combine_backward_factors(const Signature& s) {
  return rules::factors_by_letters(
      s,
      {.inputs = {"gnh", "egch", "gnk", "gnk"}, .outputs = {"egch", "gnk"}, .unshardable = "ec"});
}

Work combine_backward_work(const Signature& s) {
  return work_of_rows(s, s.shape(2), s.shape(0).dim(2), 4);
}

void reference_combine_backward(const Signature& s, std::span<const Dense> in,
                                std::span<Dense> out) {
  const std::size_t h = size_of_dim(in[0], 2);
  for (const Kept& kept : kept_choices(s, in[2], in[1].shape)) {
    for (std::size_t i = 0; i < h; ++i) {
      const double dout = in[0].data[kept.token * h + i];
      out[0].data[kept.row * h + i] += in[3].data[kept.choice] * dout;
      out[1].data[kept.choice] += in[1].data[kept.row * h + i] * dout;
    }
  }
}

const AttributeRow kExperts{"experts", std::int64_t{0}, false};
const AttributeRow kCapacity{"capacity", std::int64_t{0}, false};

std::vector<Op> choice_ops() {
  return {
      {.name = "expert_slots",
       .summary = "a slot in the group with the expert of each indices[g,n,k], or -1 if it is full",
       .inputs = {"indices"},
       .outputs = {"slots", "load"},
       .attributes = {kExperts, kCapacity},
       .infer = infer_slots,
       .factors = slots_factors,
       .work = work_of_choices,
       .reference = reference_slots},
      {.name = "expert_load",
       .summary = "counts[e] of all choices indices[g,n,k] that fell on the expert",
       .inputs = {"indices"},
       .outputs = {"counts"},
       .attributes = {kExperts},
       .infer = infer_load,
       .factors = load_factors,
       .work = work_of_choices,
       .reference = reference_load}};
}

std::vector<Op> row_ops() {
  return {
      {.name = "expert_dispatch",
       .summary = "y[e,g,c,h] = the rows of x[g,n,h] in their slots[g,n,k], zeros in empty ones",
       .inputs = {"x", "slots"},
       .outputs = {"y"},
       .attributes = {kExperts, kCapacity},
       .infer = infer_dispatch,
       .factors = dispatch_factors,
       .linear = Linear::Each,
       .work = dispatch_work,
       .gradient = dispatch_gradient,
       .reference = reference_dispatch},
      {.name = "expert_combine",
       .summary = "out[g,n,h] = sum over k of gates[g,n,k] times row slots[g,n,k] of y[e,g,c,h]",
       .inputs = {"y", "slots", "gates"},
       .outputs = {"out"},
       .infer = infer_combine,
       .factors = combine_factors,
       .linear = Linear::Each,
       .work = combine_work,
       .gradient = combine_gradient,
       .reference = reference_combine},
      {.name = "expert_combine_backward",
       .summary = "gradients of expert_combine",
       .inputs = {"dout", "y", "slots", "gates"},
       .outputs = {"dy", "dgates"},
       .infer = infer_combine_backward,
       .factors = combine_backward_factors,
       .work = combine_backward_work,
       .reference = reference_combine_backward}};
}

}  // namespace

std::vector<Op> rows() {
  std::vector<Op> rows = choice_ops();
  for (Op& row : row_ops()) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace trireme::ops::experts
