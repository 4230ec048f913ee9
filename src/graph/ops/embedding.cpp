// embedding: the row of a table for each id.
//
//   y[..,c] = table[ids[..], c]
//
// The backward adds up the gradients of equal ids: dtable[v,c] = sum of dy[..,c] where ids[..] = v.
//
// A shard of the table starts at row `first` of `whole` rows (0: unsharded); other ids return 0, so that the shards'
// results add up to the full result.
//
//   bytes = ids, the rows that are read, and y; the rest of the table is not touched
#include <optional>

#include <fmt/format.h>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::embedding {
namespace {

/// Lowercase letters for the ids; V and C for the table.
std::string ids_letters(const Signature& s) {
  return rules::letters_for(s.shape(1).rank());
}

/// The id's row in a shard of the table with this many rows; nothing if it is in another shard.
std::optional<std::size_t> row_of(const Signature& s, double id, std::int64_t rows) {
  const std::int64_t whole = s.integer("whole") > 0 ? s.integer("whole") : rows;
  s.require(id >= 0 && id < static_cast<double>(whole),
            fmt::format("the id {} is not a row of the table, which has V = {}", id, whole));
  const double row = id - static_cast<double>(s.integer("first"));
  const bool there = row >= 0 && row < static_cast<double>(rows);
  return there ? std::optional(static_cast<std::size_t>(row)) : std::nullopt;
}

void require_part(const Signature& s, std::int64_t rows) {
  const std::int64_t whole = s.integer("whole") > 0 ? s.integer("whole") : rows;
  s.require(s.integer("first") >= 0 && s.integer("first") + rows <= whole,
            fmt::format("{} rows from {} on are not among {}", rows, s.integer("first"), whole));
}

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 2);
  rules::require_integer(s, 1);
  require_part(s, s.shape(0).dim(0));
  std::vector<std::int64_t> dims = s.shape(1).dims();
  dims.push_back(s.shape(0).dim(1));
  return {{s.inputs[0].dtype, Shape(std::move(dims))}};
}

Factors factors(const Signature& s) {
  const std::string ids = ids_letters(s);
  return rules::factors_by_letters(s, {{"VC", ids}, {ids + "C"}, ""});
}

Attributes part_of(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  const std::int64_t given = whole.integer("whole");
  attributes["whole"] = given > 0 ? given : whole.shape(0).dim(0);
  attributes["first"] = whole.integer("first") + ranges.front().begin;
  return attributes;
}

Work work(const Signature& s) {
  const Bytes y = size_of(s.op->infer(s).at(0));
  return {.bytes = static_cast<double>(size_of(s.inputs[1]).count + 2 * y.count)};
}

std::vector<ValueId> gradient(GradientQuery& q) {
  if (!q.wanted[0]) {
    return {{}, {}};
  }
  Attributes attributes = q.node.attributes;
  attributes["rows"] = q.builder.shape(q.node.inputs[0]).dim(0);
  return {q.builder.add1("embedding_backward", {q.outputs[0], q.node.inputs[1]}, attributes), {}};
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = size_of_dim(in[0], 1);
  for (std::size_t i = 0; i < in[1].data.size(); ++i) {
    const std::optional<std::size_t> row = row_of(s, in[1].data[i], in[0].shape.dim(0));
    for (std::size_t k = 0; row && k < c; ++k) {
      out[0].data[i * c + k] = in[0].data[*row * c + k];
    }
  }
}

// Backward: dy, ids -> dtable

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_integer(s, 1);
  s.require(s.shape(0).rank() >= 1 && rules::rows_of(s.shape(0)) == s.shape(1),
            "dy must have a row for each id");
  s.require(s.integer("rows") >= 0, "a table has at least 0 rows");
  require_part(s, s.integer("rows"));
  return {{s.inputs[0].dtype, Shape{s.integer("rows"), s.shape(0).dims().back()}}};
}

Factors factors_backward(const Signature& s) {
  const std::string ids = ids_letters(s);
  return rules::factors_by_letters(s, {{ids + "C", ids}, {"VC"}, ""});
}

/// V, which appears only in the result, is the last factor.
Attributes part_backward(const Signature& whole, std::span<const IndexRange> ranges) {
  Attributes attributes = *whole.attributes;
  const std::int64_t given = whole.integer("whole");
  attributes["whole"] = given > 0 ? given : whole.integer("rows");
  attributes["first"] = whole.integer("first") + ranges.back().begin;
  attributes["rows"] = ranges.back().length;
  return attributes;
}

Work work_backward(const Signature& s) {
  return {.others = static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

void reference_backward(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t c = size_of_dim(out[0], 1);
  for (std::size_t i = 0; i < in[1].data.size(); ++i) {
    const std::optional<std::size_t> row = row_of(s, in[1].data[i], out[0].shape.dim(0));
    for (std::size_t k = 0; row && k < c; ++k) {
      out[0].data[*row * c + k] += in[0].data[i * c + k];
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "embedding",
           .summary = "y[..,c] = table[ids[..], c]",
           .inputs = {"table", "ids"},
           .outputs = {"y"},
           .attributes = {{"first", std::int64_t{0}}, {"whole", std::int64_t{0}}},
           .infer = infer,
           .factors = factors,
           .linear = Linear::Each,
           .part = part_of,
           .work = work,
           .gradient = gradient,
           .reference = reference},
          {.name = "embedding_backward",
           .summary = "dtable[v,c] = sum of dy[..,c] where ids[..] = v < rows",
           .inputs = {"dy", "ids"},
           .outputs = {"dtable"},
           .attributes = {{"rows", std::int64_t{0}, false},
                          {"first", std::int64_t{0}},
                          {"whole", std::int64_t{0}}},
           .infer = infer_backward,
           .factors = factors_backward,
           .linear = Linear::Each,
           .part = part_backward,
           .work = work_backward,
           .reference = reference_backward}};
}

}  // namespace trireme::ops::embedding
