// Products fused with the ops that follow, so that the result is written once:
//
//   einsum_add            y = a b + addend
//   einsum_bias           y = a b + bias
//   einsum_bias_add       y = a b + bias + addend
//   einsum_bias_gelu      x = a b + bias, y = gelu(x)
//   einsum_gelu_backward  y = gelu'(x) a b
//
// a b is the einsum of their equation. The bias has the last dimensions of the result, the addend and x all of them.
// Passes create these nodes from einsum, add, gelu and gelu_backward, whose references they use; nothing is rounded in
// between.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/einsum.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::products {
namespace {

/// The product alone.
Signature product_of(const Signature& s) {
  return {
      .op = &op_named("einsum"), .inputs = {s.inputs[0], s.inputs[1]}, .attributes = s.attributes};
}

std::vector<TensorType> infer(const Signature& s) {
  const Signature product = product_of(s);
  const TensorType result = product.op->infer(product).front();
  const std::vector<std::int64_t>& dims = result.shape.dims();
  for (std::size_t k = 2; k < s.inputs.size(); ++k) {
    const std::vector<std::int64_t>& own = s.shape(k).dims();
    const bool is_bias = s.op->inputs[k] == "bias";
    rules::require_same_dtype(s, 0, k);
    s.require(is_bias
                  ? own.size() <= dims.size() && std::equal(own.rbegin(), own.rend(), dims.rbegin())
                  : own == dims,
              fmt::format("{} must have the {}dimensions of the product, {}", s.op->inputs[k],
                          is_bias ? "last " : "", to_text(result)));
  }
  return std::vector<TensorType>(s.op->outputs.size(), result);
}

/// Partial sums exist only of the product, not of what is applied to it.
Factors factors(const Signature& s) {
  const EinsumLetters letters = parse_equation(s);
  rules::Letters all{.inputs = {letters.a, letters.b},
                     .outputs = std::vector<std::string>(s.op->outputs.size(), letters.result),
                     .unshardable = {}};
  for (std::size_t k = 2; k < s.inputs.size(); ++k) {
    all.inputs.push_back(letters.result.substr(letters.result.size() - s.shape(k).dims().size()));
  }
  std::ranges::copy_if(letters.a, std::back_inserter(all.unshardable), [&](char letter) {
    return letters.result.find(letter) == std::string::npos;
  });
  return rules::factors_by_letters(s, all);
}

Work work(const Signature& s) {
  const Signature product = product_of(s);
  const double elements =
      static_cast<double>(product.op->infer(product).front().shape.element_count());
  return {.products = product.op->work(product).products,
          .others = elements * static_cast<double>(s.inputs.size() + s.op->outputs.size() - 3),
          .bytes = rules::bytes_of_operands(s)};
}

void apply(std::string_view op, const Attributes& none, std::span<const Dense> in, Dense& out) {
  const Signature s{.op = &op_named(op), .inputs = {}, .attributes = &none};
  s.op->reference(s, in, std::span(&out, 1));
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  const Signature product = product_of(s);
  product.op->reference(product, in.first(2), out.first(1));
  const Attributes none;
  for (std::size_t k = 2; k < in.size(); ++k) {
    if (s.op->inputs[k] == "x") {
      const std::array operands{in[k], out[0]};
      apply("gelu_backward", none, operands, out[0]);
    } else {
      const std::array operands{out[0], in[k]};
      apply("add", none, operands, out[0]);
    }
  }
  if (out.size() == 2) {
    out[1] = out[0];
    apply("gelu", none, out.last(1), out[0]);
  }
}

Op row(std::string_view name, std::string_view summary,
       const std::vector<std::string_view>& operands) {
  Op op{.name = name,
        .summary = summary,
        .inputs = {"a", "b"},
        .outputs = {"y"},
        .attributes = {{"equation", std::string(), false}},
        .infer = infer,
        .factors = factors,
        .work = work,
        .reference = reference};
  for (const std::string_view operand : operands) {
    if (operand == "addend") {
      op.in_place.push_back({0, op.inputs.size()});
    }
    op.inputs.push_back(operand);
  }
  return op;
}

}  // namespace

std::vector<Op> rows() {
  Op gelu = row("einsum_bias_gelu", "x = a b + bias, y = gelu(x)", {"bias"});
  gelu.outputs.emplace_back("x");
  return {row("einsum_add", "y = a b + addend", {"addend"}),
          row("einsum_bias", "y = a b + bias", {"bias"}),
          row("einsum_bias_add", "y = a b + bias + addend", {"bias", "addend"}), std::move(gelu),
          row("einsum_gelu_backward", "y = gelu'(x) a b", {"x"})};
}

}  // namespace trireme::ops::products
