// Small checkpoints for tests, with contents determined by the step.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "train/checkpoint/checkpoint.h"

namespace trireme::train {

/// Names of files and folders.
using Names = std::vector<std::string>;

/// Large enough for the model to be written in several pieces.
inline constexpr std::int64_t kModelElements = 300'000;

inline std::vector<float> content(std::int64_t step, std::int64_t count) {
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(step * 1000 + i % 997);
  }
  return values;
}

inline TensorSet floats(std::vector<TensorSpec> specs, std::int64_t step) {
  TensorSet set{.specs = std::move(specs), .read = nullptr};
  set.read = [specs = set.specs, step, buffer = std::vector<float>()](std::size_t i) mutable {
    buffer = content(step + static_cast<std::int64_t>(i), specs[i].shape.element_count());
    return std::as_bytes(std::span<const float>(buffer));
  };
  return set;
}

inline CheckpointState state_at(std::int64_t step) {
  return {.info = {.step = step,
                   .seed = 0xffff'ffff'ffff'fff0,
                   .data = {.epoch = 2, .index = step * 7},
                   .config = R"({"layers": 2, "name": "ü"})"},
          .model = floats({{"wte", DType::F32, Shape{kModelElements}}, {"b", DType::F32, Shape{3}}},
                          step),
          .optimizer = floats({{"wte.m", DType::F32, Shape{5, 2}}}, step + 100)};
}

inline void expect_floats(const TensorView& tensor, std::int64_t step) {
  const std::vector<float> expected = content(step, tensor.spec.shape.element_count());
  EXPECT_TRUE(std::ranges::equal(tensor.bytes, std::as_bytes(std::span(expected))))
      << tensor.spec.name;
}

/// Expects the contents of state_at(step).
inline void expect_whole(const Checkpoint& checkpoint, std::int64_t step) {
  EXPECT_EQ(checkpoint.info, state_at(step).info);
  expect_floats(checkpoint.model.at("wte"), step);
  expect_floats(checkpoint.model.at("b"), step + 1);
  ASSERT_TRUE(checkpoint.optimizer.has_value());
  expect_floats(checkpoint.optimizer->at("wte.m"), step + 100);
}

}  // namespace trireme::train
