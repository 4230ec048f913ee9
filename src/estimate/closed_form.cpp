// Parameters and FLOPs of a transformer in closed form. With width h, H heads of d, K key heads, hidden f, s tokens:
//
//   projections   queries and output 2·2hHd, keys and values 2·2hKd      8h² where Hd = Kd = h
//   attention     s scores of d for each head, and as much for their sum: 4sHd
//   feed-forward  2 or, gated, 3 products of h and f: 4hf or 6hf         16h² where f = 4h
//   logits        2hV
//
// A router over E experts is a product of h and E, two if it has noise; one that picks k of the s tokens for a block is
// a product of h and 1, and reduces the block's work to k/s, that of its attention to (k/s)².
#include "trireme/estimate.h"

namespace trireme {
namespace {

double real(std::int64_t number) {
  return static_cast<double>(number);
}

bool is_gpt(const ModelConfig& c) {
  return c.family == Family::Gpt2;
}

/// Matrices of a feed-forward part: up and down, and a gate.
std::int64_t matrices(const ModelConfig& c) {
  return is_gpt(c) ? 2 : 3;
}

std::int64_t attention_parameters(const ModelConfig& c) {
  const std::int64_t rows = c.heads + c.key_heads;  // of queries and output; of keys and values
  const std::int64_t weights = 2 * c.width * rows * c.head_width;
  const std::int64_t biases = (c.heads + 2 * c.key_heads) * c.head_width + c.width;
  return weights + (is_gpt(c) ? biases : 0);
}

std::int64_t feed_forward_parameters(const ModelConfig& c) {
  return matrices(c) * c.width * c.hidden + (is_gpt(c) ? c.hidden + c.width : 0);
}

/// Experts have no biases.
std::int64_t expert_parameters(const Architecture& a) {
  return matrices(a.model) * a.model.width * a.hidden_of_expert();
}

/// Scores that the routers of a block with experts assign to a token, and the deviations of their noise.
std::int64_t router_columns(const ModelConfig& c) {
  return c.experts * (c.noisy_router ? 2 : 1);
}

std::int64_t picking_blocks(const ModelConfig& c) {
  return c.depth_capacity > 0 ? c.layers / c.depth_every : 0;
}

/// The share of all blocks' work that remains if some of them process only a share of the tokens.
double share_of_work(const ModelConfig& c, double share_of_tokens) {
  return 1 - real(picking_blocks(c)) / real(c.layers) * (1 - share_of_tokens);
}

}  // namespace

std::int64_t ParameterCount::total() const noexcept {
  return embedding + attention + feed_forward + experts + routers + norms + head;
}

std::int64_t ParameterCount::active() const noexcept {
  return total() - experts + experts_for_a_token;
}

ParameterCount count_parameters(const Architecture& a) {
  const ModelConfig& c = a.model;
  const std::int64_t expert = expert_parameters(a);
  const std::int64_t norm = is_gpt(c) ? 2 * c.width : c.width;
  return {.embedding = (c.vocabulary + (is_gpt(c) ? c.context : 0)) * c.width,
          .attention = c.layers * attention_parameters(c),
          .feed_forward = a.dense_blocks() * feed_forward_parameters(c) +
                          a.mixture_blocks() * c.shared_experts * expert,
          .experts = a.mixture_blocks() * c.experts * expert,
          .routers = (a.mixture_blocks() * router_columns(c) + picking_blocks(c)) * c.width,
          .norms = (2 * c.layers + 1) * norm,
          .head = c.tied ? 0 : c.vocabulary * c.width,
          .experts_for_a_token = a.mixture_blocks() * c.experts_per_token * expert};
}

double TokenFlops::layers() const noexcept {
  return projections + attention + feed_forward + routers;
}

TokenFlops forward_flops(const Architecture& a, std::int64_t length) {
  const ModelConfig& c = a.model;
  const double layers = real(c.layers);
  const double queries = real(c.heads * c.head_width);
  const double keys = real(c.key_heads * c.head_width);
  const double dense = 2 * real(matrices(c)) * real(c.width * c.hidden);
  const double expert = 2 * real(expert_parameters(a));
  const double picked = real(c.picked_tokens(length)) / real(length);
  const double share = share_of_work(c, picked);
  const double chosen = real(c.experts_per_token + c.shared_experts);
  return {.projections = share * 4 * layers * real(c.width) * (queries + keys),
          .attention = share_of_work(c, picked * picked) * 4 * layers * real(length) * queries,
          .feed_forward =
              share * (real(a.dense_blocks()) * dense + real(a.mixture_blocks()) * chosen * expert),
          .routers = share * 2 * real(a.mixture_blocks()) * real(router_columns(c) * c.width) +
                     2 * real(picking_blocks(c) * c.width),
          .logits = 2 * real(c.width * c.vocabulary)};
}

TrainingFlops training_flops(const Architecture& a, std::int64_t length, RecomputeMode recompute) {
  const TokenFlops forward = forward_flops(a, length);
  const double again = recompute == RecomputeMode::Full        ? forward.layers()
                       : recompute == RecomputeMode::Selective ? forward.attention
                                                               : 0;
  const double model = 3 * forward.total();
  return {.model = model,
          .causal = model - 1.5 * forward.attention,
          .hardware = model + again,
          .six_n = 6 * real(count_parameters(a).active())};
}

}  // namespace trireme
