// Models: a small description in, the Graph of one forward pass out. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph.h"
#include "trireme/valid.h"

namespace trireme {

/// How a transformer's blocks are built.
enum class Family : std::uint8_t {
  Gpt2,   ///< layer norm, learned positions, GELU, biases, tied embedding
  Llama,  ///< RMS norm, rotary positions, SwiGLU, grouped queries, no biases
};

/// How a router's scores become the gates of the experts that it chose.
enum class GateOrder : std::uint8_t {
  SoftmaxFirst,  ///< over all experts, then the best k of it: gates add up to less than 1
  TopKFirst,     ///< the best k scores, then the soft-max over those: gates add up to 1
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
  // Mixture of experts: with more than one, the feed-forward part of each so-many-th block is this many, of which a
  // router picks some for each token.
  std::int64_t experts = 1;
  std::int64_t mixture_every = 1;
  std::int64_t experts_per_token = 2;
  double capacity_factor =
      1.25;  ///< places of an expert for a sequence, over an even share; 0: nothing is ever dropped
  double balance_loss = 0.01;  ///< weight of the auxiliary loss
  /// None: soft-max first for one expert a token, whose gate would be 1 and teach the router nothing
  /// otherwise; else top-k first.
  std::optional<GateOrder> gate_order{};
  /// The router's scores get normal noise, whose deviation it learns for each expert and token.
  bool noisy_router = false;
  std::int64_t shared_experts = 0;  ///< that every token passes, besides the chosen ones
  // Mixture of depths: in each so-many-th block a router picks this share of every sequence's tokens; the
  // others pass by. 0: all blocks take all tokens.
  double depth_capacity = 0;
  std::int64_t depth_every = 2;
  DType dtype = DType::F32;

  /// Whether this block, from 0 on, has experts.
  [[nodiscard]] bool has_experts(std::int64_t layer) const noexcept;
  /// Whether a router picks the tokens of this block, from 0 on.
  [[nodiscard]] bool picks_tokens(std::int64_t layer) const noexcept;
  /// How many it picks of a sequence: the capacity, rounded up.
  [[nodiscard]] std::int64_t picked_tokens(std::int64_t length) const;
  [[nodiscard]] bool softmax_first() const noexcept;
};

/// What is wrong, in words that name the numbers that do not go together; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ModelConfig& config);

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
  DType dtype = DType::F32;  ///< of parameters and activations
  /// The name of the graph's input that it reads. A language model has `tokens` and `targets`, i32[B,T], and
  /// the outputs `loss`, the mean over all positions, and `logits`. With dropout or noise there is a `step`,
  /// i64[].
  std::string input = "tokens";
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
