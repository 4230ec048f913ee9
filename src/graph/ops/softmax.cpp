// softmax: normalizes every row to positive values that add up to 1.
//
//   y[..,i] = exp(x[..,i] - m) / sum over j of exp(x[..,j] - m),  m the largest of the row
//
// Backward: dx = y (dy - sum_of_row(dy y)).
#include <algorithm>
#include <cmath>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "trireme/op_rules.h"

namespace trireme::ops::softmax {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  s.require(s.shape(0).rank() >= 1, "there must be a last dimension");
  return rules::like_first(s);
}

std::vector<TensorType> infer_backward(const Signature& s) {
  rules::require_same_type(s, 0, 1);
  return infer(s);
}

Factors factors(const Signature& s) {
  const std::string x = rules::letters_for(s.shape(0).rank());
  return rules::factors_by_letters(
      s, {std::vector<std::string>(s.inputs.size(), x), {x}, std::string(1, x.back())});
}

std::vector<ValueId> gradient(GradientQuery& q) {
  return {q.builder.add1("softmax_backward", {q.outputs[0], q.node.outputs[0]})};
}

void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t n = row_length(in[0]);
  for (std::size_t row = 0; row < in[0].data.size(); row += n) {
    const std::span<const double> x = std::span(in[0].data).subspan(row, n);
    const std::span<double> y = std::span(out[0].data).subspan(row, n);
    const double largest = *std::ranges::max_element(x);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      y[i] = std::exp(x[i] - largest);
      sum += y[i];
    }
    for (double& share : y) {
      share /= sum;
    }
  }
}

void reference_backward(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t n = row_length(in[0]);
  for (std::size_t row = 0; row < in[0].data.size(); row += n) {
    const double* dy = in[0].data.data() + row;
    const double* y = in[1].data.data() + row;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += dy[i] * y[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[0].data[row + i] = y[i] * (dy[i] - sum);
    }
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "softmax",
           .summary = "y[..,n] = e^x / the sum of e^x, by row",
           .inputs = {"x"},
           .outputs = {"y"},
           .infer = infer,
           .factors = factors,
           .work = rules::per_element<5>,
           .gradient = gradient,
           .in_place = {{0, 0}},
           .reference = reference},
          {.name = "softmax_backward",
           .summary = "dx = y (dy - the sum of dy y), by row",
           .inputs = {"dy", "y"},
           .outputs = {"dx"},
           .infer = infer_backward,
           .factors = factors,
           .work = rules::per_element<4>,
           .in_place = {{0, 0}, {0, 1}},
           .reference = reference_backward}};
}

}  // namespace trireme::ops::softmax
