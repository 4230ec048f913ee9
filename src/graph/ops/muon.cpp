// muon: momentum, orthogonalized (Jordan et al., 2024). With d = g_scale g, for each matrix of p:
//
//   m' = momentum m + d
//   X  = (d + momentum m') / its Frobenius norm, then kIterations Newton-Schulz iterations
//   p' = p - lr (scale X + decay p),  scale = 0.2 sqrt(max(rows, columns))
//
// The iterations mix all elements of a matrix, so its dimensions cannot be sharded: a rank that has a shard gathers the
// whole matrix for the update and keeps its shard of the result. Separate matrices, such as those of experts, can be on
// separate ranks. Types and skipped steps follow the other optimizers.
#include "graph/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/ops/families.h"
#include "graph/ops/optimizer_step.h"
#include "trireme/op_rules.h"

namespace trireme {

muon::Matrices muon::matrices_of(const Signature& s) {
  const auto& dims = s.shape(0).dims();
  const std::int64_t batch = s.integer("batch");
  const std::int64_t rows = s.integer("rows");
  Matrices matrices;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    std::int64_t& size = at < batch          ? matrices.count
                         : at < batch + rows ? matrices.rows
                                             : matrices.columns;
    size *= dims[d];
  }
  return matrices;
}

double muon::scale_of(const Matrices& matrices) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(matrices.rows, matrices.columns)));
}

namespace ops::muon_step {
namespace {

std::vector<TensorType> infer(const Signature& s) {
  const std::int64_t batch = s.integer("batch");
  const std::int64_t rows = s.integer("rows");
  s.require(batch >= 0 && rows >= 1 && batch + rows < s.shape(0).rank(),
            "batch and rows must leave p at least one dimension for its columns");
  return infer_optimizer_step(s);
}

Factors factors(const Signature& s) {
  const std::string letters = rules::letters_for(s.shape(0).rank());
  return rules::factors_by_letters(s, {.inputs = {letters, letters, letters, "", ""},
                                       .outputs = {letters, letters},
                                       .unshardable = letters.substr(s.integer("batch"))});
}

Work work(const Signature& s) {
  const muon::Matrices m = muon::matrices_of(s);
  const auto small = static_cast<double>(std::min(m.rows, m.columns));
  const auto large = static_cast<double>(std::max(m.rows, m.columns));
  const double each = 2 * small * small * (2 * large + small);
  return {.products = muon::kIterations * static_cast<double>(m.count) * each,
          .others = 12 * static_cast<double>(s.shape(0).element_count()),
          .bytes = rules::bytes_of_operands(s)};
}

/// A small dense matrix, by rows.
struct Matrix {
  std::size_t rows;
  std::size_t columns;
  std::vector<double> data;

  [[nodiscard]] double at(std::size_t r, std::size_t c) const { return data[r * columns + c]; }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.columns; ++k) {
      for (std::size_t j = 0; j < b.columns; ++j) {
        c.data[i * b.columns + j] += a.at(i, k) * b.at(k, j);
      }
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows, std::vector<double>(a.data.size())};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) {
      t.data[j * a.rows + i] = a.at(i, j);
    }
  }
  return t;
}

/// alpha a + beta b
Matrix combined(double alpha, const Matrix& a, double beta, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < c.data.size(); ++i) {
    c.data[i] = alpha * a.data[i] + beta * b.data[i];
  }
  return c;
}

Matrix orthogonalized(Matrix x) {
  double squares = 0;
  for (const double element : x.data) {
    squares += element * element;
  }
  for (double& element : x.data) {
    element /= std::sqrt(squares) + muon::kTiny;
  }
  for (int i = 0; i < muon::kIterations; ++i) {
    const Matrix gram = product(x, transposed(x));
    const Matrix factor = combined(muon::kB, gram, muon::kC, product(gram, gram));
    x = combined(muon::kA, x, 1, product(factor, x));
  }
  return x;
}

/// The matrix whose elements begin at `first`.
void step(const Signature& s, std::size_t first, std::span<const Dense> in, std::span<Dense> out) {
  const muon::Matrices sizes = muon::matrices_of(s);
  const double momentum = s.number("momentum");
  const double lr = in[3].data[0];
  Matrix x{static_cast<std::size_t>(sizes.rows), static_cast<std::size_t>(sizes.columns), {}};
  for (std::size_t i = first; i < first + x.rows * x.columns; ++i) {
    const double d = in[4].data[0] * in[1].data[i];
    out[1].data[i] = momentum * in[2].data[i] + d;
    x.data.push_back(d + momentum * out[1].data[i]);
  }
  x = orthogonalized(std::move(x));
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const double p = in[0].data[first + i];
    out[0].data[first + i] = p - lr * (muon::scale_of(sizes) * x.data[i] + s.number("decay") * p);
  }
}

void reference(const Signature& s, std::span<const Dense> in, std::span<Dense> out) {
  if (keeps_old(in, out)) {
    return;
  }
  const muon::Matrices sizes = muon::matrices_of(s);
  for (std::int64_t k = 0; k < sizes.count; ++k) {
    step(s, k * sizes.rows * sizes.columns, in, out);
  }
}

}  // namespace

std::vector<Op> rows() {
  return {{.name = "muon",
           .summary = "a step along the orthogonalized momentum of each matrix of p",
           .inputs = {"p", "g", "m", "lr", "g_scale"},
           .outputs = {"new_p", "new_m"},
           .attributes = {{"momentum", 0.95},
                          {"decay", 0.0},
                          {"batch", std::int64_t{0}},
                          {"rows", std::int64_t{1}}},
           .infer = infer,
           .factors = factors,
           .work = work,
           .in_place = {{0, 0}, {1, 2}},
           .reference = reference}};
}

}  // namespace ops::muon_step
}  // namespace trireme
