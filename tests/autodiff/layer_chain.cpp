#include "autodiff/layer_chain.h"

#include <random>

#include <fmt/format.h>

#include "trireme/autodiff.h"

namespace trireme::testing {
namespace {

class ChainMaker {
 public:
  explicit ChainMaker(const ChainOptions& options) : options_(options), builder_("chain") {}

  Chain run() {
    const ValueId x = builder_.input("x", leaf("x", {options_.batch, options_.widths[0]}));
    ValueId last = x;
    for (std::size_t k = 0; k + 1 < options_.widths.size();) {
      builder_.set_block(block_++);
      last = add_block(last, k);
    }
    builder_.set_block(-1);
    const ValueId loss = builder_.add1("reduce_sum", {builder_.add1("square", {last})},
                                       {{"axes", std::vector<std::int64_t>{0, 1}}});
    builder_.output("loss", loss);
    if (options_.gradient_of_input) {
      wanted_.push_back(x);
    }
    Gradients gradients = add_gradients(builder_.finish(), loss, wanted_);
    GraphBuilder end(std::move(gradients.graph));
    for (std::size_t k = 0; k < wanted_.size(); ++k) {
      end.output("d_" + end.graph().value(wanted_[k]).name, gradients.values[k]);
    }
    return {end.finish(), leaves_};
  }

 private:
  TensorType leaf(const std::string& name, const Shape& shape) {
    std::uniform_real_distribution<double> reals(-1, 1);
    Dense& values = leaves_[name] = Dense(shape);
    for (double& value : values.data) {
      value = reals(generator_);
    }
    return {DType::F32, shape};
  }

  ValueId parameter(const std::string& name, const Shape& shape) {
    wanted_.push_back(builder_.parameter(name, leaf(name, shape)));
    return wanted_.back();
  }

  ValueId add_block(ValueId input, std::size_t& k) {
    ValueId last = input;
    for (int i = 0; i < options_.products_per_block && k + 1 < options_.widths.size(); ++i, ++k) {
      last = add_layer(last, k);
    }
    return options_.residual ? builder_.add1("add", {last, input}) : last;
  }

  ValueId add_layer(ValueId last, std::size_t k) {
    const ValueId w =
        parameter(fmt::format("w{}", k), {options_.widths[k], options_.widths[k + 1]});
    last = builder_.add1("einsum", {last, w}, {{"equation", std::string("bi,ij->bj")}});
    for (const std::string& op : options_.between) {
      std::vector<ValueId> inputs{last};
      if (op == "layer_norm") {
        inputs.push_back(parameter(fmt::format("gamma{}", k), {options_.widths[k + 1]}));
        inputs.push_back(parameter(fmt::format("beta{}", k), {options_.widths[k + 1]}));
      }
      last = builder_.add(op, inputs).front();
    }
    return last;
  }

  const ChainOptions& options_;
  GraphBuilder builder_;
  std::mt19937 generator_{11};
  Leaves leaves_;
  std::vector<ValueId> wanted_;
  std::int32_t block_ = 0;
};

}  // namespace

Chain make_chain(const ChainOptions& options) {
  return ChainMaker(options).run();
}

std::map<std::string, Dense> results_of(const Graph& graph, const Leaves& leaves) {
  const std::vector<Dense> values = evaluate(graph, leaves);
  std::map<std::string, Dense> results;
  for (const Output& output : graph.outputs()) {
    results[output.name] = values[static_cast<std::size_t>(output.value.index)];
  }
  return results;
}

}  // namespace trireme::testing
