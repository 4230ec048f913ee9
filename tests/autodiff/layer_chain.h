// Chains of layers with their gradients, one block each: test models for recomputation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "trireme/graph.h"

namespace trireme::testing {

struct ChainOptions {
  std::int64_t batch = 4;
  std::vector<std::int64_t> widths{};  ///< of the input and of each product's result
  /// What follows each product, in order: "relu", "gelu", "layer_norm", …
  std::vector<std::string> between{};
  int products_per_block = 1;
  bool gradient_of_input = false;
  bool residual = false;  ///< adds a block's input to its result; requires equal widths
};

struct Chain {
  Graph graph{};  ///< with outputs loss and d_x (if requested), d_w0, d_w1, …
  Leaves leaves{};
};

[[nodiscard]] Chain make_chain(const ChainOptions& options);

/// By output name.
[[nodiscard]] std::map<std::string, Dense> results_of(const Graph& graph, const Leaves& leaves);

}  // namespace trireme::testing
