#include "trireme/model.h"

#include <cmath>

#include <gtest/gtest.h>

#include "model/overfit.h"
#include "trireme/error.h"

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

std::vector<float> overfit(const AnyModelConfig& config, int steps) {
  return testing::overfit(config, {2, 16}, 32, steps);
}

/// Every kind of model trains on one batch to a loss below 0.01.
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
  EXPECT_LT(overfit(config, 300).back(), 0.01);
  config.family = Family::Llama;
  config.experts_per_token = 2;
  EXPECT_LT(overfit(config, 300).back(), 0.01);
}

TEST(Models, MixtureWithNoiseAndSharedExpertsOverfitsOneBatch) {
  ModelConfig config = tiny("experts-mini");
  config.experts = 4;
  config.balance_loss = 0;
  config.capacity_factor = 0;
  EXPECT_LT(overfit(config, 300).back(), 0.01);
}

TEST(Models, MixtureOfDepthsOverfitsOneBatch) {
  ModelConfig config = tiny("depths-mini");
  config.depth_capacity = 0.25;
  EXPECT_LT(overfit(config, 300).back(), 0.01);
}

TEST(Models, PerceptronsOverfitOneBatch) {
  for (const char* preset : {"mlp", "mlp-deep"}) {
    EXPECT_LT(testing::overfit(preset_any_model(preset), {16, 1}, 1, 400).back(), 0.01) << preset;
  }
}

TEST(Models, ConvNetOverfitsOneBatch) {
  const std::vector<float> losses = testing::overfit(preset_any_model("conv-mini"), {8, 1}, 8, 400);
  EXPECT_NEAR(losses.front(), std::log(8.0), 0.5);
  EXPECT_LT(losses.back(), 0.01);
}

TEST(Models, HaveParameterCountsOfTheirFamilies) {
  const auto parameters = [](const char* name) {
    std::int64_t count = 0;
    for (const ModelParameter& parameter : make_model(preset_model(name), {1, 8}).parameters) {
      count += parameter.type.shape.element_count();
    }
    return count;
  };
  EXPECT_EQ(parameters("gpt2-small"), 124439808);
  EXPECT_EQ(parameters("gpt2-xl"), 1557611200);
  EXPECT_EQ(parameters("llama-1b"), 1235814400);
}

TEST(Models, RejectIncompatibleOptions) {
  ModelConfig config = tiny("llama-tiny");
  config.key_heads = 3;
  EXPECT_THROW((void)make_model(config, {1, 8}), Error);
  EXPECT_THROW((void)make_model(tiny("gpt-nano"), {1, 17}), Error);
  EXPECT_THROW((void)preset_model("gpt3"), Error);
  EXPECT_THROW((void)preset_any_model("gpt3"), Error);
  EXPECT_THROW((void)make_model(MlpConfig{.hidden = {8, 0}}, 4), Error);
  EXPECT_THROW((void)make_model(ConvNetConfig{.size = 10}, 4), Error);
  EXPECT_THROW((void)make_model(preset_any_model("mlp"), {0, 1}), Error);
  config = tiny("llama-tiny");
  config.depth_capacity = 0.5;
  EXPECT_THROW((void)make_model(config, {1, 8}), Error);
}

}  // namespace
}  // namespace trireme
