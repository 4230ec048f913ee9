// The FLOPs of a graph, by what they are for. Any thread.
//
// The convention of MFU counts multiply-adds of matrix products, convolutions and attention alone, 2 FLOPs
// each: `products`. The model's are those of forward and backward; the hardware also does what is computed
// again. With rho = recomputed / forward and a backward of two forwards, MFU / HFU = 3 / (3 + rho).
#pragma once

#include <array>

#include "trireme/graph.h"

namespace trireme {

struct Flops {
  double products = 0;
  double causal_products = 0;  ///< without those that a causal mask makes superfluous
  double others = 0;           ///< besides: element by element, norms, the optimizer
};

struct FlopCount {
  std::array<Flops, 4> phases{};  ///< in the order of Phase
  /// Products in the phases above that repeat the forward's inside of an op: the backward of attention
  /// computes the scores again.
  Flops repeated{};

  [[nodiscard]] const Flops& of(Phase phase) const {
    return phases.at(static_cast<std::size_t>(phase));
  }
  /// Forward and backward, each once and nothing again: what MFU counts.
  [[nodiscard]] Flops model() const;
  /// All that is executed: what HFU counts.
  [[nodiscard]] Flops hardware() const;
};

[[nodiscard]] FlopCount count_flops(const Graph& graph);

}  // namespace trireme
