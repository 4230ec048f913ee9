// TrainingRecipe: what training software keeps in memory, per parameter and of activations.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

/// By default, mixed-precision Adam as in Megatron-LM.
struct TrainingRecipe {
  /// Whose memory: that of Megatron-LM, by published formulas, or that of the programs of `trireme train`.
  enum class Software : std::uint8_t { Megatron, Trireme } software = Software::Megatron;
  double gradient_bytes =
      4;                    ///< per parameter, as kept, and as reduced between data-parallel ranks
  double master_bytes = 4;  ///< per parameter that is narrower: its copy that the optimizer updates
  double moment_bytes = 8;  ///< of the optimizer, per parameter
};

/// Of `trireme train` with AdamW, if parameters are of this type: gradients are as wide as parameters, moments and masters
/// are f32.
[[nodiscard]] TrainingRecipe trireme_recipe(std::string_view dtype);

[[nodiscard]] std::string_view to_text(TrainingRecipe::Software software);
/// "megatron", "trireme", for parameters of this type. Throws Error(Usage) that lists them.
[[nodiscard]] TrainingRecipe parse_recipe(std::string_view software, std::string_view dtype);

}  // namespace trireme
