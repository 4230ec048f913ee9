#include "model/layers.h"

#include <numeric>
#include <string_view>

#include <fmt/format.h>

namespace trireme {
namespace {

/// "h.0.attn.q.weight" and "einsum" make "h.0.attn.q.einsum".
std::string op_name(std::string_view parameter, std::string_view op) {
  return fmt::format("{}.{}", parameter.substr(0, parameter.rfind('.')), op);
}

}  // namespace

ValueId ModelBuilder::parameter(const std::string& name, const Shape& shape, Initial initial) {
  const TensorType type{dtype_, shape};
  parameters_.push_back({name, type, initial});
  return builder_.parameter(name, type);
}

ValueId ModelBuilder::add_bias(ValueId x, const std::string& name, const Shape& shape) {
  const ValueId sum = builder_.add1("add", {x, parameter(name, shape, {Initial::Kind::Zero})});
  builder_.rename(sum, op_name(name, "add"));
  return sum;
}

ValueId ModelBuilder::einsum(const char* equation, ValueId a, ValueId b) {
  const ValueId y = builder_.add1("einsum", {a, b}, {{"equation", std::string(equation)}});
  const Value weight = builder_.graph().value(b);
  if (weight.origin == Origin::Parameter) {
    builder_.rename(y, op_name(weight.name, "einsum"));
  }
  return y;
}

ValueId ModelBuilder::cast(ValueId x, DType to) {
  return builder_.type(x).dtype == to
             ? x
             : builder_.add1("cast", {x}, {{"to", std::string(to_text(to))}});
}

ValueId ModelBuilder::mean(ValueId x, double count) {
  std::vector<std::int64_t> axes(builder_.shape(x).dims().size());
  std::iota(axes.begin(), axes.end(), 0);
  const ValueId sum = builder_.add1("reduce_sum", {x}, {{"axes", axes}});
  return builder_.add1("scale", {sum}, {{"factor", 1 / count}});
}

Model ModelBuilder::finish(std::string input) {
  Model model;
  model.dtype = dtype_;
  model.input = std::move(input);
  model.graph = builder_.finish();
  model.parameters = std::move(parameters_);
  return model;
}

ValueId ModelBuilder::cross_entropy(ValueId logits, ValueId targets) {
  const ValueId top =
      builder_.add1("reduce_max", {logits}, {{"axes", std::vector<std::int64_t>{-1}}});
  const std::vector<ValueId> sums = builder_.add("cross_entropy_sums", {logits, targets, top});
  return builder_.add1("cross_entropy", {sums[0], sums[1], top, targets});
}

ValueId Layers::layer_norm(ValueId x, const std::string& name) {
  const Shape row{config_.width};
  const ValueId gamma = parameter(name + ".weight", row, {Initial::Kind::One});
  const ValueId beta = parameter(name + ".bias", row, {Initial::Kind::Zero});
  const ValueId y =
      builder().add("layer_norm", {x, gamma, beta}, {{"epsilon", config_.norm_epsilon}})[0];
  builder().rename(y, name + ".layer_norm");
  return y;
}

ValueId Layers::rms_norm(ValueId x, const std::string& name) {
  const ValueId gamma = parameter(name + ".weight", {config_.width}, {Initial::Kind::One});
  const ValueId y = builder().add("rms_norm", {x, gamma}, {{"epsilon", config_.norm_epsilon}})[0];
  builder().rename(y, name + ".rms_norm");
  return y;
}

ValueId Layers::dropout(ValueId x) {
  if (config_.dropout == 0) {
    return x;
  }
  return builder().add1("dropout", {x, step_}, {{"rate", config_.dropout}, {"seed", ++seeds_}});
}

ValueId Layers::noise(const Shape& shape) {
  return builder().add1(
      "random_normal", {step_},
      {{"shape", shape.dims()}, {"dtype", std::string(to_text(dtype()))}, {"seed", ++seeds_}});
}

}  // namespace trireme
