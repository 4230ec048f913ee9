// Mixture of depths: a block that works on some tokens of each sequence only.
#pragma once

#include <string>

#include "model/layers.h"

namespace trireme {

/// Tokens that a router picked out of x [B,T,C].
struct PickedTokens {
  ValueId indices{};  ///< [B,K], in the order of the sequence
  ValueId rows{};     ///< [B,K,C]
  ValueId gates{};    ///< [B,K,1]
};

/// Picks `count` of each sequence. Names begin with `at`.
[[nodiscard]] PickedTokens pick_tokens(Layers& layers, ValueId x, const std::string& at,
                                       std::int64_t count);

/// x, and for the tokens that were picked what was computed for them [B,K,C], times their gates.
[[nodiscard]] ValueId add_to_picked(Layers& layers, ValueId x, const PickedTokens& picked,
                                    ValueId computed);

}  // namespace trireme
