// Finds the attention projections that fuse_projections.cpp replaces; see its file comment for the pattern. A search
// starts at the products and follows all readers of their results: the forward, the recomputation and the backward of
// one micro-batch. It gives up at any other reader, such as an exchange of keys. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "trireme/graph.h"

namespace trireme {

inline constexpr std::size_t kHeadAxis = 2;  ///< of q, k and v [B,T,H,D]

/// The values of the old graph that become one: q, k and v, or their gradients.
struct PackedValue {
  std::array<ValueId, 3> parts{};
  std::size_t ready = 0;  ///< the node at which it is made
  bool is_gradient = false;
};

/// Nodes of the old graph that become one.
struct PackedStep {
  enum class Kind {
    Product,
    Bias,
    Rotation,
    Attention,
    AttentionBackward,
    BiasGradient,
    WeightGradient,
    InputGradient,
  } kind{};
  std::vector<std::size_t> nodes{};  ///< for q, k and v, in this order, or a single node
  std::size_t operand = 0;           ///< index of a packed value
  std::size_t result = 0;            ///< likewise
  ValueId sum{};                     ///< of an input gradient
};

/// An attention's part of the graph.
struct Projection {
  std::vector<PackedValue> values{};
  std::multimap<std::size_t, PackedStep> steps{};  ///< by the node at which they are added
};

/// All of a graph, and by node whether it belongs to one of them.
struct Projections {
  std::vector<Projection> all{};
  std::vector<bool> is_fused{};
};
[[nodiscard]] Projections find_projections(const Graph& graph);

}  // namespace trireme
