// A mixture of experts, which replaces a block's feed-forward part.
#pragma once

#include <string>

#include "model/layers.h"

namespace trireme {

struct MixtureResult {
  ValueId y{};
  ValueId balance{};  ///< the auxiliary loss, weighted
};

/// x [B,T,C]; names begin with `at`.
[[nodiscard]] MixtureResult mixture_of_experts(Layers& layers, ValueId x, const std::string& at,
                                               double residual_deviation);

}  // namespace trireme
