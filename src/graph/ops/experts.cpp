// Experts: tokens sent to the experts that a router chose for them, and the results brought back. With N
// tokens, K choices for each, E experts with room for C tokens each (dropless: C = N):
//
//   expert_slots:    indices[n,k] -> slots[n,k] = expert C + position, or -1: the expert is full
//   expert_dispatch: y[e,c,:] = the sum of x[n,:] over the choices with slots[n,k] = e C + c
//   expert_combine:  out[n,:] = the sum over k of gates[n,k] y[slots[n,k],:], without dropped choices
//   expert_load:     fraction[e] = the share of all choices that fell on e, for the balance loss
//
// Slots are given to the first choices of all tokens, in their order, then to the second choices, and so
// on, as in GShard: a token's second choice never takes the place of another's first. Each slot is given
// once, so that a row of a dispatch is one token, or zeros if nobody has the slot. load[e] counts all that
// chose e: dropped are those past C.
//
// Splitting. Who gets a slot depends on all tokens, so that expert_slots needs them all. With the slots
// given, dispatch and combine are sums over tokens and choices, and any part of those can be done alone.
// The experts cannot be split here: slots count through all of them. (Expert parallelism exchanges the
// rows of y by an all-to-all, between these ops.)
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/families.h"
#include "graph/rules.h"

namespace trireme::ops {
namespace {

/// [N,K], whole numbers.
void require_choices(const Signature& s, std::size_t input) {
  rules::require_integer(s, input);
  rules::require_rank(s, input, 2);
}

std::int64_t experts_of(const Signature& s) {
  s.require(s.integer("experts") >= 1, "there must be an expert");
  return s.integer("experts");
}

std::int64_t capacity_of(const Signature& s) {
  s.require(s.integer("capacity") >= 0, "the capacity must be 0 or more");
  return s.integer("capacity");
}

/// Nothing can be split: who comes first depends on all.
Factors whole_factors(const Signature& s, std::vector<std::string> outputs) {
  return rules::factors_by_letters(
      s, {.inputs = {"nk"}, .outputs = std::move(outputs), .whole = "nke"});
}

Work work_of_choices(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

std::size_t expert_in(const Signature& s, const Dense& indices, std::size_t choice) {
  const auto expert = static_cast<std::int64_t>(indices.data[choice]);
  s.require(expert >= 0 && expert < s.integer("experts"),
            fmt::format("there is no expert {} of {}", expert, s.integer("experts")));
  return static_cast<std::size_t>(expert);
}

// expert_slots: indices -> slots, load

std::vector<TensorType> infer_slots(const Signature& s) {
  require_choices(s, 0);
  (void)capacity_of(s);
  return {{DType::I32, s.shape(0)}, {DType::I32, {experts_of(s)}}};
}

Factors slots_factors(const Signature& s) {
  return whole_factors(s, {"nk", "e"});
}

void reference_slots(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto tokens = static_cast<std::size_t>(in[0].shape.dim(0));
  const auto choices = static_cast<std::size_t>(in[0].shape.dim(1));
  const auto capacity = static_cast<double>(s.integer("capacity"));
  for (std::size_t k = 0; k < choices; ++k) {
    for (std::size_t n = 0; n < tokens; ++n) {
      const std::size_t expert = expert_in(s, in[0], n * choices + k);
      const double position = out[1].data[expert]++;
      out[0].data[n * choices + k] =
          position < capacity ? static_cast<double>(expert) * capacity + position : -1;
    }
  }
}

// expert_load: indices -> fraction

std::vector<TensorType> infer_load(const Signature& s) {
  require_choices(s, 0);
  return {{DType::F32, {experts_of(s)}}};
}

Factors load_factors(const Signature& s) {
  return whole_factors(s, {"e"});
}

void reference_load(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t choices = in[0].data.size();
  for (std::size_t i = 0; i < choices; ++i) {
    out[0].data[expert_in(s, in[0], i)] += 1.0 / static_cast<double>(choices);
  }
}

// What dispatch and combine have in common.

/// One choice that was not dropped: its token, its place in [N,K] and the row of y that it has.
struct Kept {
  std::size_t token;
  std::size_t choice;
  std::size_t row;
};

std::vector<Kept> kept_choices(const Signature& s, const Dense& slots, const Shape& y) {
  std::vector<Kept> kept;
  const std::int64_t rows = y.dim(0) * y.dim(1);
  for (std::size_t i = 0; i < slots.data.size(); ++i) {
    const auto slot = static_cast<std::int64_t>(slots.data[i]);
    s.require(slot >= -1 && slot < rows, fmt::format("there is no slot {} of {}", slot, rows));
    if (slot >= 0) {
      kept.push_back(
          {i / static_cast<std::size_t>(slots.shape.dim(1)), i, static_cast<std::size_t>(slot)});
    }
  }
  return kept;
}

/// So many FLOPs for each element of a row of H, a row for each choice.
Work work_of_rows(const Signature& s, const Shape& slots, std::int64_t h, int per_element) {
  return {
      .others = static_cast<double>(per_element) * static_cast<double>(slots.element_count() * h),
      .bytes = rules::bytes_of_operands(s)};
}

// expert_dispatch: x, slots -> y

std::vector<TensorType> infer_dispatch(const Signature& s) {
  rules::require_rank(s, 0, 2);
  require_choices(s, 1);
  s.require(s.shape(0).dim(0) == s.shape(1).dim(0), "there must be slots for each token");
  return {{s.inputs[0].dtype, {experts_of(s), capacity_of(s), s.shape(0).dim(1)}}};
}

Factors dispatch_factors(const Signature& s) {
  return rules::factors_by_letters(s, {.inputs = {"nh", "nk"}, .outputs = {"ech"}, .whole = "ec"});
}

Work dispatch_work(const Signature& s) {
  return {.bytes = rules::bytes_of_operands(s)};
}

void reference_dispatch(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto h = static_cast<std::size_t>(in[0].shape.dim(1));
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
  rules::require_rank(s, y, 3);
  require_choices(s, slots);
  rules::require_same_dtype(s, y, gates);
  s.require(s.shape(gates) == s.shape(slots), "there must be a gate for each slot");
}

std::vector<TensorType> infer_combine(const Signature& s) {
  require_experts(s, 0, 1, 2);
  return {{s.inputs[0].dtype, {s.shape(1).dim(0), s.shape(0).dim(2)}}};
}

Factors combine_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"ech", "nk", "nk"}, .outputs = {"nh"}, .whole = "ec"});
}

Work combine_work(const Signature& s) {
  return work_of_rows(s, s.shape(1), s.shape(0).dim(2), 2);
}

void reference_combine(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const auto h = static_cast<std::size_t>(in[0].shape.dim(2));
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
  s.require(s.shape(0) == Shape{s.shape(2).dim(0), s.shape(1).dim(2)},
            "dout must have a row as long as y's for each token");
  return {s.inputs[1], s.inputs[3]};
}

Factors combine_backward_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"nh", "ech", "nk", "nk"}, .outputs = {"ech", "nk"}, .whole = "ec"});
}

Work combine_backward_work(const Signature& s) {
  return work_of_rows(s, s.shape(2), s.shape(0).dim(1), 4);
}

void reference_combine_backward(const Signature& s, std::span<const Dense> in,
                                std::span<Dense> out) {
  const auto h = static_cast<std::size_t>(in[0].shape.dim(1));
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
  return {{.name = "expert_slots",
           .summary = "a slot with the chosen expert for each of indices[n,k], or -1 if full",
           .inputs = {"indices"},
           .outputs = {"slots", "load"},
           .attributes = {kExperts, kCapacity},
           .infer = infer_slots,
           .factors = slots_factors,
           .work = work_of_choices,
           .reference = reference_slots},
          {.name = "expert_load",
           .summary = "fraction[e] of all choices that fell on the expert",
           .inputs = {"indices"},
           .outputs = {"fraction"},
           .attributes = {kExperts},
           .infer = infer_load,
           .factors = load_factors,
           .work = work_of_choices,
           .reference = reference_load}};
}

std::vector<Op> row_ops() {
  return {{.name = "expert_dispatch",
           .summary = "y[e,c,h] = the rows of x[n,h] in their slots[n,k], zeros in empty ones",
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
           .summary = "out[n,h] = sum over k of gates[n,k] times the row of y[e,c,h] in slots[n,k]",
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

std::vector<Op> experts_ops() {
  std::vector<Op> rows = choice_ops();
  for (Op& row : row_ops()) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace trireme::ops
