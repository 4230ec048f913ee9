// Trains a model on one batch.
#pragma once

#include <cstring>
#include <vector>

#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model_kinds.h"
#include "trireme/training.h"

namespace trireme::testing {

/// The losses of some steps on one batch of numbers that depend on their positions: ids below `ids`, and values between
/// -1 and 1 for floating-point inputs.
inline std::vector<float> overfit(const AnyModelConfig& config, const BatchShape& batch,
                                  std::int32_t ids, int steps) {
  const Model model = make_model(config, batch);
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
  Program program = make_program(
      make_training_graph(model.graph, {.optimizer = AdamW{.decay = 0}, .clip_limit = 1.0}));
  require_valid(program);
  Execution execution(std::move(program), *device);
  for (const ModelParameter& parameter : model.parameters) {
    execution.write(parameter.name, initial_values(parameter, 1).raw());
  }
  for (const std::string& name : {model.input, std::string("targets")}) {
    const TensorType& type = execution.program().buffer(execution.program().find(name)).type;
    HostBuffer values(type.dtype, type.shape.element_count());
    const int factor = name == "targets" ? 11 : 7;
    for (std::int64_t i = 0; i < type.shape.element_count(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (type.dtype == DType::I32) {
        values.as<std::int32_t>()[at] = static_cast<std::int32_t>(i * factor % ids);
      } else {
        values.as<float>()[at] = static_cast<float>((i * i * factor + 3 * i) % 101) / 50 - 1;
      }
    }
    execution.write(name, values.raw());
  }
  const float rate = 3e-3F;
  execution.write("learning_rate", std::as_bytes(std::span(&rate, 1)));
  std::vector<float> losses;
  for (std::int64_t step = 1; step <= steps; ++step) {
    execution.write("step", std::as_bytes(std::span(&step, 1)));
    execution.run();
    execution.read("loss", std::as_writable_bytes(std::span(&losses.emplace_back(), 1)));
  }
  return losses;
}

}  // namespace trireme::testing
