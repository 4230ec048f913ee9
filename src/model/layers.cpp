#include "model/layers.h"

namespace trireme {

ValueId Layers::parameter(const std::string& name, const Shape& shape, Initial initial) {
  const TensorType type{config_.dtype, shape};
  parameters_.push_back({name, type, initial});
  return builder_.parameter(name, type);
}

ValueId Layers::add_bias(ValueId x, const std::string& name, const Shape& shape) {
  return builder_.add1("add", {x, parameter(name, shape, {Initial::Kind::Zero})});
}

ValueId Layers::layer_norm(ValueId x, const std::string& name) {
  const Shape row{config_.width};
  const ValueId gamma = parameter(name + ".weight", row, {Initial::Kind::One});
  const ValueId beta = parameter(name + ".bias", row, {Initial::Kind::Zero});
  return builder_.add("layer_norm", {x, gamma, beta}, {{"epsilon", config_.norm_epsilon}})[0];
}

ValueId Layers::rms_norm(ValueId x, const std::string& name) {
  const ValueId gamma = parameter(name + ".weight", {config_.width}, {Initial::Kind::One});
  return builder_.add("rms_norm", {x, gamma}, {{"epsilon", config_.norm_epsilon}})[0];
}

ValueId Layers::dropout(ValueId x) {
  if (config_.dropout == 0) {
    return x;
  }
  return builder_.add1("dropout", {x, step_}, {{"rate", config_.dropout}, {"seed", ++dropouts_}});
}

}  // namespace trireme
