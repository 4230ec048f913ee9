// Models: builds the Graph of one forward pass from a short description. Callable from any thread.
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
/// "gpt2", "llama". parse_family throws Error(Usage) that lists them.
[[nodiscard]] std::string_view to_text(Family family);
[[nodiscard]] Family parse_family(std::string_view text);

/// How a router's scores become the gates of the chosen experts.
enum class GateOrder : std::uint8_t {
  SoftmaxFirst,  ///< softmax over all experts, then the top k: gates add up to less than 1
  TopKFirst,     ///< the top k scores, then softmax over those: gates add up to 1
};
/// "softmax-first", "top-k-first". parse_gate_order throws Error(Usage) that lists them.
[[nodiscard]] std::string_view to_text(GateOrder order);
[[nodiscard]] GateOrder parse_gate_order(std::string_view text);

/// A decoder-only language model.
struct ModelConfig {
  std::string name = "gpt";
  Family family = Family::Gpt2;
  std::int64_t vocabulary = 50304;
  std::int64_t context = 1024;  ///< the maximum sequence length
  std::int64_t width = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t key_heads = 12;  ///< fewer than heads: grouped-query attention
  std::int64_t head_width = 64;
  std::int64_t hidden = 3072;  ///< of the feed-forward part
  double norm_epsilon = 1e-5;
  double rope_base = 10000.0;
  double dropout = 0.0;
  bool tied = true;  ///< the output layer shares the embedding
  // Mixture of experts: with more than one, the feed-forward part of every n-th block has this many experts, from which
  // a router picks some for each token.
  std::int64_t experts = 1;
  std::int64_t mixture_every = 1;
  std::int64_t experts_per_token = 2;
  /// The capacity of an expert per sequence, relative to an even share; 0: no token is ever dropped.
  double capacity_factor = 1.25;
  double balance_loss = 0.01;  ///< weight of the auxiliary loss
  /// The auxiliary loss is the mean over this many equal parts of the batch; 0: over the micro-batches of a training
  /// plan, or 1 without a plan.
  std::int64_t balance_groups = 1;
  /// Default: softmax first with one expert per token, since the gate would otherwise be 1 and the router would not
  /// learn; else top-k first.
  std::optional<GateOrder> gate_order{};
  /// Adds normal noise to the router's scores, with a learned deviation per expert and token.
  bool noisy_router = false;
  std::int64_t shared_experts = 0;  ///< used by every token, in addition to the chosen ones
  // Mixture of depths: in every n-th block a router picks this share of every sequence's tokens; the others skip the
  // block. 0: all blocks process all tokens.
  double depth_capacity = 0;
  std::int64_t depth_every = 2;
  DType dtype = DType::F32;

  /// Whether this block (from 0) has experts.
  [[nodiscard]] bool has_experts(std::int64_t layer) const noexcept;
  /// Whether a router picks the tokens of this block (from 0).
  [[nodiscard]] bool picks_tokens(std::int64_t layer) const noexcept;
  /// How many tokens it picks per sequence: the capacity, rounded up.
  [[nodiscard]] std::int64_t picked_tokens(std::int64_t length) const;
  [[nodiscard]] bool softmax_first() const noexcept;
};

/// What is wrong, in words that name the conflicting numbers; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ModelConfig& config);

/// "gpt2-small", "llama-tiny", …; throws Error(Usage) that lists them.
[[nodiscard]] ModelConfig preset_model(std::string_view name);
[[nodiscard]] std::vector<std::string> preset_model_names();

/// The initial value of a parameter.
struct Initial {
  enum class Kind : std::uint8_t { Zero, One, Normal } kind = Kind::Zero;
  double deviation = 0;  ///< of Normal
};
[[nodiscard]] std::string_view to_text(Initial::Kind kind);

struct ModelParameter {
  std::string name{};
  TensorType type{};
  Initial initial{};
};

struct Model {
  DType dtype = DType::F32;  ///< of parameters and activations
  /// The name of the graph's input. A language model has `tokens` and `targets`, i32[B,T], and the outputs `loss`, the
  /// mean over all positions, and `logits`. With dropout or noise there is also a `step`, i64[].
  std::string input = "tokens";
  Graph graph{};
  std::vector<ModelParameter> parameters{};
};

struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t length = 1;  ///< tokens of each
};

[[nodiscard]] Model make_model(const ModelConfig& config, const BatchShape& batch);

/// The initial values of a parameter: a function of the seed and its name, so that they do not depend on the order or
/// placement of the other parameters.
[[nodiscard]] HostBuffer initial_values(const ModelParameter& parameter, std::uint64_t seed);

}  // namespace trireme
