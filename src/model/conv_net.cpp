// Images [B,channels,S,S] to classes:
//
//   3 x 3 convolution, ReLU, 2 x 2 max pooling    [B,F,S/2,S/2]
//   1 x 1 and 3 x 3 convolutions in parallel, each with a ReLU; 2 x 2 max pooling    [B,2F,S/4,S/4]
//   global average pooling, a matrix product    [B,classes]
//
// The two branches are independent: they can run at the same time, on two devices.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "model/layers.h"
#include "trireme/model_kinds.h"

namespace trireme {
namespace {

using Numbers = std::vector<std::int64_t>;

class ConvNet {
 public:
  ConvNet(const ConvNetConfig& config, std::int64_t examples)
      : c_(config), examples_(examples), layers_(config.name, config.dtype) {}

  Model run() {
    GraphBuilder& b = layers_.builder();
    const ValueId images =
        b.input("images", {DType::F32, {examples_, c_.channels, c_.size, c_.size}});
    const ValueId targets = b.input("targets", {DType::I32, {examples_}});
    b.set_block(0);
    ValueId x = layers_.cast(images, c_.dtype);
    x = maxima(convolution(x, "stem", 3));
    b.set_block(1);
    x = maxima(branches(x));
    b.set_block(-1);
    const ValueId logits = classify(x);
    const ValueId each = layers_.cross_entropy(logits, targets);
    const ValueId loss = layers_.mean(each, static_cast<double>(examples_));
    b.rename(loss, "loss");
    b.output("loss", loss);
    b.output("logits", logits);
    return layers_.finish("images");
  }

 private:
  /// Keeps the image size; with a bias for each channel and a ReLU.
  ValueId convolution(ValueId x, const std::string& name, std::int64_t kernel) {
    GraphBuilder& b = layers_.builder();
    const std::int64_t inputs = b.shape(x).dim(1);
    const double deviation = std::sqrt(2.0 / static_cast<double>(inputs * kernel * kernel));
    const ValueId w =
        layers_.weight(name + ".weight", {c_.filters, inputs, kernel, kernel}, deviation);
    const std::int64_t border = kernel / 2;
    const ValueId y = b.add1("conv2d", {x, w}, {{"padding", Numbers{border, border}}});
    const ValueId bias = layers_.parameter(name + ".bias", {c_.filters}, {Initial::Kind::Zero});
    Numbers image = b.shape(y).dims();
    image.erase(image.begin());
    const ValueId everywhere =
        b.add1("broadcast", {bias}, {{"shape", image}, {"axes", Numbers{1, 2}}});
    const ValueId sum = b.add1("add", {y, everywhere});
    const ValueId result = b.add1("relu", {sum});
    b.rename(y, name + ".conv2d");
    b.rename(everywhere, name + ".broadcast");
    b.rename(sum, name + ".add");
    b.rename(result, name + ".relu");
    return result;
  }

  ValueId branches(ValueId x) {
    const ValueId narrow = convolution(x, "branches.0", 1);
    const ValueId wide = convolution(x, "branches.1", 3);
    return layers_.builder().add1("concat", {narrow, wide}, {{"axis", std::int64_t{1}}});
  }

  ValueId maxima(ValueId x) {
    return layers_.builder().add1("max_pool", {x},
                                  {{"kernel", Numbers{2, 2}}, {"stride", Numbers{2, 2}}});
  }

  ValueId classify(ValueId x) {
    GraphBuilder& b = layers_.builder();
    const Shape shape = b.shape(x);
    const Numbers all{shape.dim(2), shape.dim(3)};
    const ValueId means = b.add1("avg_pool", {x}, {{"kernel", all}, {"stride", all}});
    const ValueId rows =
        b.add1("reshape", {means}, {{"shape", Numbers{shape.dim(0), shape.dim(1)}}});
    const ValueId w = layers_.weight("classifier.weight", {shape.dim(1), c_.classes},
                                     std::sqrt(1.0 / static_cast<double>(shape.dim(1))));
    return layers_.add_bias(layers_.einsum("bi,io->bo", rows, w), "classifier.bias", {c_.classes});
  }

  ConvNetConfig c_;
  std::int64_t examples_;
  ModelBuilder layers_;
};

}  // namespace

std::vector<std::string> problems(const ConvNetConfig& c) {
  const std::array<std::pair<const char*, std::int64_t>, 4> sizes{
      {{"size", c.size}, {"channels", c.channels}, {"filters", c.filters}, {"classes", c.classes}}};
  std::vector<std::string> found;
  for (const auto& [what, number] : sizes) {
    if (number < 1) {
      found.push_back(
          fmt::format("model {}: {} is {}; it must be 1 or more", c.name, what, number));
    }
  }
  if (c.size % 4 != 0) {
    found.push_back(fmt::format("model {}: images of {} x {} pixels cannot be halved twice", c.name,
                                c.size, c.size));
  }
  return found;
}

Model make_model(const ConvNetConfig& config, std::int64_t examples) {
  require_valid(config);
  return ConvNet(config, examples).run();
}

}  // namespace trireme
