// The language model on which plans are tested.
#pragma once

#include "trireme/model.h"

namespace trireme {

/// The learning rate of its tests.
inline constexpr double kRate = 0.01;

/// Hardly any size divides another: 4 blocks of width 12, 4 heads of 4, 13 tokens, in f64.
inline ModelConfig tiny_model(Family family = Family::Gpt2) {
  ModelConfig config;
  config.name = family == Family::Gpt2 ? "gpt" : "llama";
  config.family = family;
  config.vocabulary = 13;
  config.context = 8;
  config.width = 12;
  config.layers = 4;
  config.heads = 4;
  config.key_heads = family == Family::Gpt2 ? 4 : 2;
  config.head_width = 4;
  config.hidden = 20;
  config.tied = family == Family::Gpt2;
  config.dtype = DType::F64;
  return config;
}

}  // namespace trireme
