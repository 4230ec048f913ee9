// Models: a small description in, the Graph of one forward pass out. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph.h"

namespace trireme {

/// How a transformer's blocks are built.
enum class Family : std::uint8_t {
  Gpt2,   ///< layer norm, learned positions, GELU, biases, tied embedding
  Llama,  ///< RMS norm, rotary positions, SwiGLU, grouped queries, no biases
};

/// A decoder-only language model.
struct ModelConfig {
  std::string name = "gpt";
  Family family = Family::Gpt2;
  std::int64_t vocabulary = 50304;
  std::int64_t context = 1024;  ///< the longest sequence
  std::int64_t width = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t key_heads = 12;  ///< fewer than heads: grouped queries
  std::int64_t head_width = 64;
  std::int64_t hidden = 3072;  ///< of the feed-forward part
  double norm_epsilon = 1e-5;
  double rope_base = 10000.0;
  double dropout = 0.0;
  bool tied = true;  ///< the output layer is the embedding
  // Mixture of experts: with more than one, each block's feed-forward part is this many, of which a router
  // picks some for each token.
  std::int64_t experts = 1;
  std::int64_t experts_per_token = 2;
  double capacity_factor =
      1.25;  ///< places of an expert, over an even share; 0: nothing is ever dropped
  double balance_loss = 0.01;  ///< weight of the auxiliary loss
  DType dtype = DType::F32;

  /// Throws Error(Usage) that names the numbers that do not go together.
  void verify() const;
};

/// "gpt2-small", "llama-tiny", …; throws Error(Usage) that lists them.
[[nodiscard]] ModelConfig preset_model(std::string_view name);
[[nodiscard]] std::vector<std::string> preset_model_names();

/// What a parameter is before the first step.
struct Initial {
  enum class Kind : std::uint8_t { Zero, One, Normal } kind = Kind::Zero;
  double deviation = 0;  ///< of Normal
};

struct ModelParameter {
  std::string name{};
  TensorType type{};
  Initial initial{};
};

struct Model {
  ModelConfig config{};
  /// Inputs `tokens` and `targets`, i32[B,T], and `step`, i64[], if there is dropout; outputs `loss`, the mean
  /// over all positions, and `logits`.
  Graph graph{};
  std::vector<ModelParameter> parameters{};
};

struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t length = 1;  ///< tokens of each
};

[[nodiscard]] Model make_model(const ModelConfig& config, const BatchShape& batch);

/// The first values of a parameter: a function of the seed and its name, so that they do not depend on the
/// order or the place of the others.
[[nodiscard]] HostBuffer initial_values(const ModelParameter& parameter, std::uint64_t seed);

}  // namespace trireme
