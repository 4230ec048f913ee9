// Steps that search for values that are not finite: the origin is reported, and nothing is lost.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "trireme/cpu_device.h"
#include "trireme/execution.h"
#include "trireme/model.h"
#include "trireme/op.h"
#include "trireme/optimize.h"
#include "trireme/training.h"

namespace trireme::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::unique_ptr<Device> one_thread() {
  return make_cpu_device({.threads = 1, .pinned = false});
}

template <class T>
void write(Execution& execution, std::string_view name, const std::vector<T>& values) {
  execution.write(name, std::as_bytes(std::span(values)));
}

std::vector<float> read(const Execution& execution, std::string_view name) {
  const Buffer& buffer = execution.program().buffer(execution.program().find(name));
  std::vector<float> values(static_cast<std::size_t>(buffer.type.shape.element_count()));
  execution.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

/// The first step of a model, ready to run.
class FirstStep {
 public:
  FirstStep(const ModelConfig& config, Device& device)
      : model_(make_model(config, {.sequences = 2, .length = 8})),
        execution_(make_program(fuse_elementwise(make_training_graph(model_.graph))), device) {
    for (const ModelParameter& parameter : model_.parameters) {
      execution_.write(parameter.name, initial_values(parameter, 1).raw());
    }
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 16; ++i) {
      ids.push_back(i * 5 % 11);
    }
    write(execution_, "tokens", ids);
    write(execution_, "targets", ids);
    write<std::int64_t>(execution_, "step", {1});
    write<float>(execution_, "learning_rate", {0.01F});
  }

  [[nodiscard]] const Model& model() const { return model_; }
  Execution& execution() { return execution_; }

 private:
  Model model_;
  Execution execution_;
};

/// No op of these models produces infinities on purpose, so every finding is a real problem.
TEST(RunChecked, MatchesStepWhenValuesAreFinite) {
  for (const char* name : {"gpt-nano", "llama-tiny", "switch-mini"}) {
    const std::unique_ptr<Device> device = one_thread();
    FirstStep checked(preset_model(name), *device);
    EXPECT_FALSE(checked.execution().run_checked()) << name;
    FirstStep usual(preset_model(name), *device);
    usual.execution().run();
    for (const ModelParameter& parameter : usual.model().parameters) {
      EXPECT_EQ(read(checked.execution(), parameter.name), read(usual.execution(), parameter.name))
          << name << ": " << parameter.name;
    }
  }
}

TEST(RunChecked, NamesNonFiniteParameter) {
  const std::unique_ptr<Device> device = one_thread();
  FirstStep step(preset_model("gpt-nano"), *device);
  std::vector<float> weight = read(step.execution(), "wte.weight");
  weight.at(64 * 3 + 7) = std::nanf("");
  write(step.execution(), "wte.weight", weight);
  const std::optional<NonFinite> found = step.execution().run_checked();
  ASSERT_TRUE(found);
  EXPECT_EQ(to_text(*found, step.execution().program()),
            "the parameter %wte.weight f32[256,64], whose [3,7] is nan");
}

/// 3e38 is representable in f32; its products are not. The infinity propagates to everything after
/// it.
TEST(RunChecked, NamesFirstNonFiniteNode) {
  const std::unique_ptr<Device> device = one_thread();
  FirstStep step(preset_model("gpt-nano"), *device);
  constexpr std::string_view kWeight = "h.1.mlp.c_fc.weight";
  write(step.execution(), kWeight,
        std::vector<float>(read(step.execution(), kWeight).size(), 3e38F));
  const std::optional<NonFinite> found = step.execution().run_checked();
  ASSERT_TRUE(found);
  const Instruction& instruction =
      step.execution().program().instructions.at(static_cast<std::size_t>(found->instruction));
  EXPECT_EQ(instruction.op->name, "einsum");
  EXPECT_EQ(instruction.phase, Phase::Forward);
  EXPECT_EQ(instruction.block, 1);
  const std::string text = to_text(*found, step.execution().program());
  EXPECT_EQ(text.find("einsum(%"), 0U) << text;
  EXPECT_NE(text.find("%h.1.mlp.c_fc.weight) in forward, block 1 gave %"), std::string::npos)
      << text;
  EXPECT_NE(text.find("inf"), std::string::npos) << text;
}

/// The square root of 0 is 0; its derivative is not finite.
constexpr std::string_view kRoot = R"(graph g {
  parameter %w: f32[3]
  %root: f32[3] = sqrt(%w) @block(4)
  %loss: f32[] = reduce_sum(%root) axes=[0]
  output loss = %loss
})";

TEST(RunChecked, FindsNonFiniteValuesInBackward) {
  for (const bool scaling : {false, true}) {
    const std::unique_ptr<Device> device = one_thread();
    Execution execution(
        make_program(make_training_graph(
            parse_graph(kRoot),
            {.optimizer = Sgd{},
             .loss_scaling = scaling ? std::optional(LossScaling{}) : std::nullopt})),
        *device);
    write<float>(execution, "w", {4, 0, 1});
    write<float>(execution, "learning_rate", {0.1F});
    if (scaling) {
      write<float>(execution, "loss_scale", {8});
    }
    execution.run();
    EXPECT_EQ(read(execution, "loss"), std::vector<float>{3});
    EXPECT_EQ(read(execution, "finite"), std::vector<float>{0});
    EXPECT_EQ(read(execution, "w"), (std::vector<float>{4, 0, 1})) << "the step was not skipped";
    const std::optional<NonFinite> found = execution.run_checked();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->element, 1);
    EXPECT_EQ(found->value, kInfinity);
    const Instruction& instruction =
        execution.program().instructions.at(static_cast<std::size_t>(found->instruction));
    EXPECT_EQ(instruction.phase, Phase::Backward);
    EXPECT_EQ(instruction.block, 4);
    EXPECT_EQ(read(execution, "w"), (std::vector<float>{4, 0, 1}));
  }
}

TEST(RunChecked, DescribesFusedNodes) {
  const std::unique_ptr<Device> device = one_thread();
  Execution execution(make_program(fuse_elementwise(parse_graph(R"(graph g {
    input %x: f32[2,3]
    %y: f32[2,3] = square(%x) @block(0)
    %z: f32[2,3] = exp(%y) @block(0)
    output z = %z
  })"))),
                      *device);
  write<float>(execution, "x", {1, 2, 3, 4, 100, 6});
  const std::optional<NonFinite> found = execution.run_checked();
  ASSERT_TRUE(found);
  EXPECT_EQ(to_text(*found, execution.program()),
            "fused square, exp(%x) in forward, block 0 gave %z f32[2,3], whose [1,1] is inf");
}

}  // namespace
}  // namespace trireme::testing
