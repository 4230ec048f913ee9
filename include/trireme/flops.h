// The FLOPs of a graph, by purpose. Callable from any thread.
//
// MFU by convention counts only multiply-adds of matrix products, convolutions and attention, 2 FLOPs each: `products`.
// Model FLOPs are those of forward and backward; hardware FLOPs include recomputation. With rho = recomputed / forward
// and a backward of two forwards, MFU / HFU = 3 / (3 + rho).
#pragma once

#include <array>

#include "trireme/graph.h"

namespace trireme {

struct Flops {
  double products = 0;
  double causal_products = 0;  ///< excluding those masked out by causality
  double others = 0;           ///< the rest: element-wise ops, norms, the optimizer
};

struct FlopCount {
  std::array<Flops, 4> phases{};  ///< in the order of Phase
  /// Products in the phases above that repeat forward work inside an op: the backward of attention recomputes the
  /// scores.
  Flops repeated{};
  /// Products in the forward and backward pass on slots of experts that no token can have: with more slots than choices,
  /// some stay empty however the router chooses.
  Flops empty{};

  [[nodiscard]] const Flops& of(Phase phase) const {
    return phases.at(static_cast<std::size_t>(phase));
  }
  /// Forward and backward, each once, no recomputation, no empty slots: what MFU counts.
  [[nodiscard]] Flops model() const;
  /// Everything executed: what HFU counts.
  [[nodiscard]] Flops hardware() const;
};

[[nodiscard]] FlopCount count_flops(const Graph& graph);

}  // namespace trireme
