// A mixture of experts, which replaces a block's feed-forward part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/layers.h"

namespace trireme {

/// Outputs of a model with experts, followed by the number of the block: f32[experts], how many choices of the batch fell
/// on each expert, and how many of those it dropped because it was full. The training step keeps outputs with this
/// prefix; see make_training_graph().
inline constexpr std::string_view kExpertLoad = "statistics/expert_load.";
inline constexpr std::string_view kExpertDrops = "statistics/expert_drops.";

struct MixtureResult {
  ValueId y{};
  ValueId load{};                    ///< see kExpertLoad
  ValueId drops{};                   ///< see kExpertDrops
  std::optional<ValueId> balance{};  ///< the auxiliary loss, weighted; none if its weight is 0
};

/// x [B,T,C]; names begin with `at`.
[[nodiscard]] MixtureResult mixture_of_experts(Layers& layers, ValueId x, const std::string& at,
                                               double residual_deviation);

}  // namespace trireme
