// Building blocks of models: parameters with initial values, norms, biases, dropout.
#pragma once

#include <string>
#include <vector>

#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {

/// A graph under construction and its parameters, which all have the same type.
class ModelBuilder {
 public:
  ModelBuilder(const std::string& name, DType dtype) : dtype_(dtype), builder_(name) {}

  [[nodiscard]] GraphBuilder& builder() { return builder_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<ModelParameter>& parameters() const { return parameters_; }

  ValueId parameter(const std::string& name, const Shape& shape, Initial initial);
  ValueId weight(const std::string& name, const Shape& shape, double deviation) {
    return parameter(name, shape, {Initial::Kind::Normal, deviation});
  }
  /// These name their result after the parameter: "h.0.attn.q.weight" yields "h.0.attn.q.einsum".
  ValueId add_bias(ValueId x, const std::string& name, const Shape& shape);
  ValueId einsum(const char* equation, ValueId a, ValueId b);
  /// x itself if it already has the type.
  ValueId cast(ValueId x, DType to);
  /// The sum of all elements, divided by `count`.
  ValueId mean(ValueId x, double count);
  /// The loss of each row of logits.
  ValueId cross_entropy(ValueId logits, ValueId targets);
  /// Leaves the builder empty.
  [[nodiscard]] Model finish(std::string input);

 private:
  DType dtype_;
  GraphBuilder builder_;
  std::vector<ModelParameter> parameters_;
};

/// Of the initial weights of transformers.
inline constexpr double kDeviation = 0.02;

/// Additional building blocks of transformers.
class Layers : public ModelBuilder {
 public:
  explicit Layers(const ModelConfig& config)
      : ModelBuilder(config.name, config.dtype), config_(config) {}

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// The input that random numbers use as the step.
  void set_step(ValueId step) { step_ = step; }

  ValueId layer_norm(ValueId x, const std::string& name);
  ValueId rms_norm(ValueId x, const std::string& name);
  /// x itself if the model has no dropout.
  ValueId dropout(ValueId x);
  /// Standard normal numbers, different in each step.
  ValueId noise(const Shape& shape);

 private:
  ModelConfig config_;
  ValueId step_{};
  std::int64_t seeds_ = 0;
};

}  // namespace trireme
