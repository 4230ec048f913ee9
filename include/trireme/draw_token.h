// Draws the next token from a model's logits. Callable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/valid.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  ///< divides the logits; 0: always the likeliest token
  std::int64_t top_k = 0;    ///< only the k likeliest tokens; 0: all
  double top_p = 1;          ///< only the likeliest tokens whose probabilities add up to this
  std::uint64_t seed = 1;
};

[[nodiscard]] std::vector<std::string> problems(const SamplingOptions& options);

/// The token at `index` of a text: a deterministic function of the logits, the options and the index, on every machine.
/// Of tokens that are equally likely, the first counts as likelier. Requires logits.
[[nodiscard]] std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                                      std::int64_t index);

}  // namespace trireme
