// The models on which plans are tested, with the graphs of their training steps.
#pragma once

#include "tiny_model.h"
#include "trireme/model_dims.h"
#include "trireme/model_kinds.h"
#include "trireme/training.h"

namespace trireme {

inline constexpr BatchShape kTinyBatch{.sequences = 4, .length = 6};

inline ModelConfig tiny_model_with_dropout() {
  ModelConfig config = tiny_model();
  config.dropout = 0.2;
  return config;
}

inline ModelConfig tiny_experts() {
  ModelConfig config = tiny_model();
  config.layers = 2;
  config.experts = 6;
  config.experts_per_token = 2;
  config.capacity_factor = 1.0;  // some tokens are dropped
  config.shared_experts = 1;
  return config;
}

inline Model tiny_perceptron() {
  MlpConfig config;
  config.inputs = 5;
  config.hidden = {8, 6, 7, 6};
  config.outputs = 3;
  config.dtype = DType::F64;
  return make_model(config, 7);
}

inline Model tiny_conv_net() {
  ConvNetConfig config;
  config.size = 8;
  config.channels = 2;
  config.filters = 4;
  config.classes = 5;
  config.dtype = DType::F64;
  return make_model(config, 6);
}

/// With clipping.
inline Graph language_training(const Model& model, const Optimizer& optimizer = AdamW{}) {
  TrainingOptions options;
  options.optimizer = optimizer;
  options.dim_names = dim_names(model.graph);
  options.clip_limit = 0.5;
  return make_training_graph(model.graph, options);
}

/// Momentum.
inline Graph example_training(const Model& model) {
  TrainingOptions options;
  options.optimizer = Momentum{};
  return make_training_graph(model.graph, options);
}

}  // namespace trireme
