// Mixture of depths: a block that processes only some tokens of each sequence.
#pragma once

#include <string>

#include "model/layers.h"

namespace trireme {

/// Tokens that a router picked from x [B,T,C].
struct PickedTokens {
  ValueId indices{};  ///< [B,K], in the order of the sequence
  ValueId rows{};     ///< [B,K,C]
  ValueId gates{};    ///< [B,K,1]
};

/// Picks `count` tokens of each sequence. Names begin with `at`.
[[nodiscard]] PickedTokens pick_tokens(Layers& layers, ValueId x, const std::string& at,
                                       std::int64_t count);

/// x plus, for the picked tokens, their results [B,K,C] times their gates.
[[nodiscard]] ValueId add_to_picked(Layers& layers, ValueId x, const PickedTokens& picked,
                                    ValueId computed);

}  // namespace trireme
