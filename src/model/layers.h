// The parts that layers are made of: parameters that remember how they begin, norms, biases, dropout.
#pragma once

#include <string>
#include <vector>

#include "trireme/error.h"
#include "trireme/model.h"

namespace trireme {

class Layers {
 public:
  explicit Layers(const ModelConfig& config) : config_(config), builder_(config.name) {}

  [[nodiscard]] GraphBuilder& builder() { return builder_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<ModelParameter>& parameters() const { return parameters_; }
  /// The input that dropout counts steps by.
  void set_step(ValueId step) { step_ = step; }

  ValueId parameter(const std::string& name, const Shape& shape, Initial initial);
  ValueId weight(const std::string& name, const Shape& shape, double deviation) {
    return parameter(name, shape, {Initial::Kind::Normal, deviation});
  }
  ValueId add_bias(ValueId x, const std::string& name, const Shape& shape);
  ValueId layer_norm(ValueId x, const std::string& name);
  ValueId rms_norm(ValueId x, const std::string& name);
  /// x itself if the model has none.
  ValueId dropout(ValueId x);

 private:
  ModelConfig config_;
  GraphBuilder builder_;
  std::vector<ModelParameter> parameters_;
  ValueId step_{};
  std::int64_t dropouts_ = 0;
};

}  // namespace trireme
