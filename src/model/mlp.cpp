// x W1 + b1, ReLU, …, W + b; the mean squared error. The running example for graphs and their backward.
#include <cmath>

#include <fmt/format.h>

#include "model/layers.h"
#include "trireme/model_kinds.h"

namespace trireme {
namespace {

/// Preserves the scale of activations from layer to layer (He et al. 2015).
double deviation(std::int64_t inputs) {
  return std::sqrt(2.0 / static_cast<double>(inputs));
}

/// x [B,I] to [B,O].
ValueId product(ModelBuilder& layers, ValueId x, std::size_t number, std::int64_t outputs) {
  const std::int64_t inputs = layers.builder().shape(x).dim(1);
  const ValueId w =
      layers.weight(fmt::format("layers.{}.weight", number), {inputs, outputs}, deviation(inputs));
  return layers.add_bias(layers.einsum("bi,io->bo", x, w), fmt::format("layers.{}.bias", number),
                         {outputs});
}

}  // namespace

std::vector<std::string> problems(const MlpConfig& config) {
  std::vector<std::int64_t> widths = config.hidden;
  widths.insert(widths.end(), {config.inputs, config.outputs});
  std::vector<std::string> found;
  for (const std::int64_t width : widths) {
    if (width < 1) {
      found.push_back(
          fmt::format("model {}: a layer's width is {}; it must be 1 or more", config.name, width));
    }
  }
  return found;
}

Model make_model(const MlpConfig& config, std::int64_t examples) {
  require_valid(config);
  ModelBuilder layers(config.name, config.dtype);
  GraphBuilder& b = layers.builder();
  const ValueId x = b.input("x", {DType::F32, {examples, config.inputs}});
  const ValueId targets = b.input("targets", {DType::F32, {examples, config.outputs}});
  ValueId y = layers.cast(x, config.dtype);
  std::size_t number = 0;
  for (const std::int64_t width : config.hidden) {
    b.set_block(static_cast<std::int32_t>(number));
    y = b.add1("relu", {product(layers, y, number, width)});
    b.rename(y, fmt::format("layers.{}.relu", number++));
  }
  b.set_block(-1);
  y = product(layers, y, number, config.outputs);
  const DType wide = config.dtype == DType::F64 ? DType::F64 : DType::F32;
  const ValueId off = b.add1("subtract", {layers.cast(y, wide), layers.cast(targets, wide)});
  const ValueId loss =
      layers.mean(b.add1("square", {off}), static_cast<double>(examples * config.outputs));
  b.rename(loss, "loss");
  b.output("loss", loss);
  b.output("y", y);
  return layers.finish("x");
}

}  // namespace trireme
