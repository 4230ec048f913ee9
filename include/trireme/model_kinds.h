// Models other than language models, and a common type for all of them. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/model.h"
#include "trireme/valid.h"

namespace trireme {

/// A chain of matrix products with ReLUs between them, trained by regression.
struct MlpConfig {
  std::string name = "mlp";
  std::int64_t inputs = 8;
  std::vector<std::int64_t> hidden{128};  ///< widths, starting at the input
  std::int64_t outputs = 4;
  DType dtype = DType::F32;
};

/// What is wrong, in words that name the conflicting numbers; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const MlpConfig& config);

/// A classifier of square images: a convolution, an Inception block of two branches (1 x 1 and 3 x 3), pooling after
/// each, global average pooling, a linear layer.
struct ConvNetConfig {
  std::string name = "conv-mini";
  std::int64_t size = 12;     ///< pixels along an image's edge; a multiple of 4
  std::int64_t channels = 1;  ///< per pixel
  std::int64_t filters = 16;  ///< of the first convolution and of each branch
  std::int64_t classes = 8;
  DType dtype = DType::F32;
};

/// What is wrong, in words that name the conflicting numbers; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ConvNetConfig& config);

/// The input `x` is f32[B,inputs], `targets` f32[B,outputs]; the outputs are `loss`, the mean of all squared
/// errors, and `y`. Inputs and targets are f32, regardless of the model's type.
[[nodiscard]] Model make_model(const MlpConfig& config, std::int64_t examples);

/// The input `images` is f32[B,channels,size,size], `targets` i32[B]; the outputs are `loss`, the mean
/// cross-entropy, and `logits`.
[[nodiscard]] Model make_model(const ConvNetConfig& config, std::int64_t examples);

/// A model of any kind.
using AnyModelConfig = std::variant<ModelConfig, MlpConfig, ConvNetConfig>;
[[nodiscard]] const std::string& name_of(const AnyModelConfig& config);
[[nodiscard]] DType dtype_of(const AnyModelConfig& config);
void set_dtype(AnyModelConfig& config, DType dtype);

/// "mlp", "mlp-deep", "conv-mini" and those of preset_model(); throws Error(Usage) that lists them.
[[nodiscard]] AnyModelConfig preset_any_model(std::string_view name);
[[nodiscard]] std::vector<std::string> preset_any_model_names();

/// For models without sequences, batch.sequences is the number of examples and batch.length is unused.
[[nodiscard]] Model make_model(const AnyModelConfig& config, const BatchShape& batch);

/// The trained model for inference: without dropout or router noise.
[[nodiscard]] AnyModelConfig for_inference(AnyModelConfig config);

}  // namespace trireme
