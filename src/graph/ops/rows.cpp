// gather_rows, scatter_rows: extract some of every sequence's rows, and put them back. A mixture of depths gathers the
// tokens that a block processes from each sequence, and adds the block's results back.
//
//   gather_rows:  y[b,k,:] = x[b, indices[b,k], :]
//   scatter_rows: x[b,t,:] = the sum of y[b,k,:] over all k with indices[b,k] = t
//
// Each is the other's gradient. Shards of the chosen rows can be scattered independently: the results add up.
#include <fmt/format.h>

#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::rows {
namespace {

/// Rows [B,_,C] and indices [B,K].
void require_sequences(const Signature& s) {
  rules::require_rank(s, 0, 3);
  rules::require_integer(s, 1);
  rules::require_rank(s, 1, 2);
  s.require(s.shape(0).dim(0) == s.shape(1).dim(0), "there must be indices for each sequence");
}

std::vector<TensorType> infer_gather(const Signature& s) {
  require_sequences(s);
  const Shape& x = s.shape(0);
  return {{s.inputs[0].dtype, {x.dim(0), s.shape(1).dim(1), x.dim(2)}}};
}

std::vector<TensorType> infer_scatter(const Signature& s) {
  require_sequences(s);
  const Shape& y = s.shape(0);
  s.require(y.dim(1) == s.shape(1).dim(1), "there must be an index for each row of y");
  return {{s.inputs[0].dtype, {y.dim(0), s.integer("rows"), y.dim(2)}}};
}

Factors gather_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"btc", "bk"}, .outputs = {"bkc"}, .unshardable = "t"});
}

Factors scatter_factors(const Signature& s) {
  return rules::factors_by_letters(
      s, {.inputs = {"bkc", "bk"}, .outputs = {"btc"}, .unshardable = "t"});
}

/// Reads only the chosen rows.
Work gather_work(const Signature& s) {
  return {.bytes = 2 * static_cast<double>(size_of(infer_gather(s).front()).count) +
                   static_cast<double>(size_of(s.inputs[1]).count)};
}

Work scatter_work(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

/// Calls visit(few, many) with the indices of each element among the chosen rows and among all.
template <class F>
void for_each_element(const Signature& s, const Dense& indices, const Shape& all, F visit) {
  const std::int64_t per_sequence = indices.shape.dim(1);
  const std::int64_t c = all.dim(2);
  for (std::int64_t i = 0; i < indices.shape.element_count(); ++i) {
    const auto row = static_cast<std::int64_t>(indices.data[i]);
    s.require(row >= 0 && row < all.dim(1),
              fmt::format("row {} is out of range; there are {}", row, all.dim(1)));
    const std::int64_t from = (i / per_sequence * all.dim(1) + row) * c;
    for (std::int64_t k = 0; k < c; ++k) {
      visit(i * c + k, from + k);
    }
  }
}

void reference_gather(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for_each_element(s, in[1], in[0].shape, [&](std::int64_t few, std::int64_t many) {
    out[0].data[few] = in[0].data[many];
  });
}

void reference_scatter(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  for_each_element(s, in[1], out[0].shape, [&](std::int64_t few, std::int64_t many) {
    out[0].data[many] += in[0].data[few];
  });
}

std::vector<ValueId> gather_gradient(GradientQuery& q) {
  const std::int64_t rows = q.builder.shape(q.node.inputs[0]).dim(1);
  return {q.builder.add1("scatter_rows", {q.outputs[0], q.node.inputs[1]}, {{"rows", rows}}), {}};
}

std::vector<ValueId> scatter_gradient(GradientQuery& q) {
  return {q.builder.add1("gather_rows", {q.outputs[0], q.node.inputs[1]}), {}};
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "gather_rows",
           .summary = "y[b,k,c] = the rows of x[b,t,c] with the indices[b,k]",
           .inputs = {"x", "indices"},
           .outputs = {"y"},
           .infer = infer_gather,
           .factors = gather_factors,
           .linear = Linear::Each,
           .work = gather_work,
           .gradient = gather_gradient,
           .reference = reference_gather},
          {.name = "scatter_rows",
           .summary = "x[b,rows,c] = the sum of the rows of y[b,k,c] by their indices[b,k]",
           .inputs = {"y", "indices"},
           .outputs = {"x"},
           .attributes = {{"rows", std::int64_t{0}, false}},
           .infer = infer_scatter,
           .factors = scatter_factors,
           .linear = Linear::Each,
           .work = scatter_work,
           .gradient = scatter_gradient,
           .reference = reference_scatter}};
}

}  // namespace trireme::ops::rows
