// The two-layer network relu(X W1) W2 with the mean squared error, hand-written in double: the reference for graphs of
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/evaluate.h"
#include "trireme/graph.h"

namespace trireme::testing {

struct MlpSizes {
  std::int64_t batch = 4;
  std::int64_t in = 3;
  std::int64_t hidden = 5;
  std::int64_t out = 2;
};

/// Inputs x and y, parameters w1 and w2, output loss.
[[nodiscard]] Graph mlp_graph(const MlpSizes& sizes, DType dtype);

/// Values for x, y, w1 and w2; the same each time.
[[nodiscard]] Leaves mlp_leaves(const MlpSizes& sizes);

struct MlpGradients {
  double loss = 0;
  std::vector<double> w1{};
  std::vector<double> w2{};
};
[[nodiscard]] MlpGradients mlp_by_hand(const MlpSizes& sizes, const Leaves& leaves);

[[nodiscard]] Dense scalar_of(double value);

}  // namespace trireme::testing
