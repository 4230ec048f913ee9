// orthonormal: an orthonormal basis of the column space of x.
//
// Gram-Schmidt, orthogonalizing each column twice, because once leaves rounding errors. A column that depends linearly
// on earlier ones, such as zero, is replaced by a pseudorandom one that depends only on its index; if the space is
// exhausted, by zeros. Values that are not finite stay so.
#include <cmath>

#include "graph/ops/dense_sizes.h"
#include "graph/ops/families.h"
#include "graph/random.h"
#include "trireme/op_rules.h"

namespace trireme::ops::orthonormal {
namespace {

/// A column whose norm falls below this share of its original norm is only rounding error.
constexpr double kNothing = 1e-6;

std::vector<TensorType> infer(const Signature& s) {
  rules::require_float(s, 0);
  rules::require_rank(s, 0, 2);
  return rules::like_first(s);
}

Factors factors(const Signature& s) {
  return rules::factors_by_letters(s, {.inputs = {"ab"}, .outputs = {"ab"}, .unshardable = "ab"});
}

Work work(const Signature& s) {
  return {.others = 8.0 * static_cast<double>(s.shape(0).element_count() * s.shape(0).dim(1)),
          .bytes = rules::bytes_of_operands(s)};
}

using Column = std::vector<double>;

double dot(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// Orthogonalizes the column against earlier ones and normalizes it. False if nothing is left.
bool straighten(Column& column, const std::vector<Column>& before) {
  const double length = std::sqrt(dot(column, column));
  for (int round = 0; round < 2; ++round) {
    for (const Column& other : before) {
      const double along = dot(column, other);
      for (std::size_t i = 0; i < column.size(); ++i) {
        column[i] -= along * other[i];
      }
    }
  }
  const double left = std::sqrt(dot(column, column));
  if (left <= kNothing * length) {
    return false;
  }
  for (double& element : column) {
    element /= left;
  }
  return true;
}

Column drawn(std::size_t rows, std::size_t number) {
  Column column(rows);
  const random::Stream stream{
      .seed = static_cast<std::int64_t>(number), .step = 0, .use = random::Use::Normal};
  for (std::size_t i = 0; i < rows; ++i) {
    column[i] = random::normal(stream, i);
  }
  return column;
}

void reference(const Signature&, std::span<const Dense> in, std::span<Dense> out) {
  const std::size_t rows = size_of_dim(in[0], 0);
  const std::size_t columns = size_of_dim(in[0], 1);
  std::vector<Column> done;
  done.reserve(columns);
  for (std::size_t k = 0; k < columns; ++k) {
    Column column(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      column[i] = in[0].data[i * columns + k];
    }
    if (!straighten(column, done)) {
      column = drawn(rows, k);
      if (done.size() >= rows || !straighten(column, done)) {
        column.assign(rows, 0);
      }
    }
    for (std::size_t i = 0; i < rows; ++i) {
      out[0].data[i * columns + k] = column[i];
    }
    done.push_back(std::move(column));
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "orthonormal",
           .summary = "an orthonormal basis of the columns of x[m,r]",
           .inputs = {"x"},
           .outputs = {"y"},
           .infer = infer,
           .factors = factors,
           .work = work,
           .reference = reference}};
}

}  // namespace trireme::ops::orthonormal
