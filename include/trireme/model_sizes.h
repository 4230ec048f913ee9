// Overrides the sizes of a known model. Pure; callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/estimate.h"

namespace trireme {

/// Overrides of a model's sizes; 0: the model's own.
struct ModelSizes {
  std::optional<Family> family{};
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;
  std::int64_t least_context = 0;  ///< the context is at least this long
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_hidden = 0;
  std::int64_t shared_experts = 0;
  std::int64_t mixture_every = 0;
  bool untied = false;  ///< the output layer has its own weights
};

/// Derives missing sizes from the given ones: heads split the width, and the feed-forward layer keeps its ratio to the
/// width. The name gets "-resized" unless only the context differs. Throws Error(Usage) if the sizes conflict.
[[nodiscard]] Architecture resized(Architecture architecture, const ModelSizes& sizes);

}  // namespace trireme
