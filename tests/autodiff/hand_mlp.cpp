#include "autodiff/hand_mlp.h"

#include <random>
#include <string>

namespace trireme::testing {
namespace {

using Vector = std::vector<double>;

/// a[m,k] b[k,n], either of them possibly given as its transpose.
struct Product {
  std::size_t m = 0;
  std::size_t k = 0;
  std::size_t n = 0;
  bool a_transposed = false;
  bool b_transposed = false;

  [[nodiscard]] Vector of(const Vector& a, const Vector& b) const {
    Vector c(m * n, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t l = 0; l < k; ++l) {
          c[i * n + j] +=
              a[a_transposed ? l * m + i : i * k + l] * b[b_transposed ? j * k + l : l * n + j];
        }
      }
    }
    return c;
  }
};

Dense draw(const Shape& shape, std::mt19937& generator) {
  std::uniform_real_distribution<double> reals(-1, 1);
  Dense dense(shape);
  for (double& element : dense.data) {
    element = reals(generator);
  }
  return dense;
}

}  // namespace

Graph mlp_graph(const MlpSizes& s, DType dtype) {
  GraphBuilder b("mlp");
  const ValueId x = b.input("x", {dtype, {s.batch, s.in}});
  const ValueId y = b.input("y", {dtype, {s.batch, s.out}});
  const ValueId w1 = b.parameter("w1", {dtype, {s.in, s.hidden}});
  const ValueId w2 = b.parameter("w2", {dtype, {s.hidden, s.out}});
  const std::string equation = "ik,kj->ij";
  const ValueId z = b.add1("einsum", {x, w1}, {{"equation", equation}});
  const ValueId h = b.add1("relu", {z});
  const ValueId guess = b.add1("einsum", {h, w2}, {{"equation", equation}});
  const ValueId squares = b.add1("square", {b.add1("subtract", {guess, y})});
  const ValueId sum = b.add1("reduce_sum", {squares}, {{"axes", std::vector<std::int64_t>{0, 1}}});
  b.output("loss",
           b.add1("scale", {sum}, {{"factor", 1.0 / static_cast<double>(s.batch * s.out)}}));
  return b.finish();
}

Leaves mlp_leaves(const MlpSizes& s) {
  std::mt19937 generator(7);
  Leaves leaves;
  leaves["x"] = draw({s.batch, s.in}, generator);
  leaves["y"] = draw({s.batch, s.out}, generator);
  leaves["w1"] = draw({s.in, s.hidden}, generator);
  leaves["w2"] = draw({s.hidden, s.out}, generator);
  return leaves;
}

MlpGradients mlp_by_hand(const MlpSizes& sizes, const Leaves& leaves) {
  const auto batch = static_cast<std::size_t>(sizes.batch);
  const auto in = static_cast<std::size_t>(sizes.in);
  const auto hidden = static_cast<std::size_t>(sizes.hidden);
  const auto out = static_cast<std::size_t>(sizes.out);
  const Vector& x = leaves.at("x").data;
  const Vector& w2 = leaves.at("w2").data;
  const Vector z = Product{batch, in, hidden}.of(x, leaves.at("w1").data);
  Vector h = z;
  for (double& element : h) {
    element = element > 0 ? element : 0;
  }
  Vector error = Product{batch, hidden, out}.of(h, w2);
  const double share = 1.0 / static_cast<double>(error.size());
  MlpGradients result;
  for (std::size_t i = 0; i < error.size(); ++i) {
    error[i] -= leaves.at("y").data[i];
    result.loss += error[i] * error[i] * share;
    error[i] *= 2 * share;
  }
  result.w2 = Product{hidden, batch, out, true, false}.of(h, error);
  Vector dz = Product{batch, out, hidden, false, true}.of(error, w2);
  for (std::size_t i = 0; i < dz.size(); ++i) {
    dz[i] = z[i] > 0 ? dz[i] : 0;
  }
  result.w1 = Product{in, batch, hidden, true, false}.of(x, dz);
  return result;
}

Dense scalar_of(double value) {
  Dense dense{Shape{}};
  dense.data = {value};
  return dense;
}

}  // namespace trireme::testing
