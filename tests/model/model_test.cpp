#include "trireme/model.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/execution.h"
#include "trireme/training.h"

namespace trireme {
namespace {

ModelConfig tiny(const char* preset) {
  ModelConfig config = preset_model(preset);
  config.vocabulary = 32;
  config.context = 16;
  config.width = 32;
  config.layers = 2;
  config.heads = 4;
  config.key_heads = config.family == Family::Llama ? 2 : 4;
  config.head_width = 8;
  config.hidden = 64;
  return config;
}

/// Trains on one batch; the losses.
std::vector<float> overfit(const ModelConfig& config, int steps) {
  const BatchShape batch{2, 16};
  const Model model = make_model(config, batch);
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 2, .pinned = false});
  Program program = make_program(
      make_training_graph(model.graph, {.optimizer = AdamW{.decay = 0}, .clip_limit = 1.0}));
  program.verify();
  Execution execution(std::move(program), *device);
  for (const ModelParameter& parameter : model.parameters) {
    execution.write(parameter.name, initial_values(parameter, 1).raw());
  }
  std::vector<std::int32_t> tokens(32);
  std::vector<std::int32_t> targets(32);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * 7 % 31);
    targets[i] = static_cast<std::int32_t>(i * 11 % 32);
  }
  execution.write("tokens", std::as_bytes(std::span(tokens)));
  execution.write("targets", std::as_bytes(std::span(targets)));
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

/// Issue's bar: a GPT, a Llama and a mixture of experts overfit one batch to a loss below 0.01.
TEST(Models, OverfitOneBatch) {
  for (const char* preset : {"gpt-nano", "llama-tiny"}) {
    const std::vector<float> losses = overfit(tiny(preset), 300);
    EXPECT_NEAR(losses.front(), std::log(32.0), 0.3) << preset;
    EXPECT_LT(losses.back(), 0.01) << preset;
  }
}

TEST(Models, MixtureOverfitsOneBatch) {
  ModelConfig config = tiny("switch-mini");
  config.balance_loss = 0;  // it would keep the loss above its weight
  config.capacity_factor = 2;
  EXPECT_LT(overfit(config, 400).back(), 0.01);
  config.family = Family::Llama;
  config.experts_per_token = 2;
  EXPECT_LT(overfit(config, 400).back(), 0.01);
}

TEST(Models, HaveTheParametersOfTheirFamilies) {
  const auto parameters = [](const char* name) {
    std::int64_t count = 0;
    for (const ModelParameter& parameter : make_model(preset_model(name), {1, 8}).parameters) {
      count += parameter.type.shape.element_count();
    }
    return count;
  };
  EXPECT_EQ(parameters("gpt2-small"), 124439808);
  EXPECT_EQ(parameters("gpt2-xl"), 1557611200);
}

TEST(Models, RefuseWhatDoesNotGoTogether) {
  ModelConfig config = tiny("llama-tiny");
  config.key_heads = 3;
  EXPECT_THROW((void)make_model(config, {1, 8}), Error);
  EXPECT_THROW((void)make_model(tiny("gpt-nano"), {1, 17}), Error);
  EXPECT_THROW((void)preset_model("gpt3"), Error);
}

}  // namespace
}  // namespace trireme
