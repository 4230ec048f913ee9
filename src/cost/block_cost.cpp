// What one micro-batch costs in one block of a transformer, on one rank. Symbols: m tokens, h the width, q and kv the
// widths of all queries and all keys, f the hidden width, t the tensor-parallel degree.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "cost/smooth_max.h"
#include "cost/word.h"
#include "trireme/cost.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Memory traffic of kernels that only move data. Counted on Megatron-LM's kernels and then fitted to its published runs,
// since how much is fused varies.
constexpr double kPassesOverWidth = 10;    // norms, residuals, dropout: reads and writes of [m, h]
constexpr double kPassesOverQueries = 2;   // splitting and rotating
constexpr double kBackwardTraffic = 1.75;  // over that of the forward
constexpr double kScoreBytesForward = 11;  // per score of unfused attention: mask, softmax, dropout
constexpr double kScoreBytesBackward = 17;
constexpr double kLossBytes = 10;       // per logit, forward and again backward
constexpr double kFusedBackward = 2.5;  // FLOPs of a fused attention's backward over its forward

/// Launching embedding, final norm, logits and loss of a micro-batch, forward and backward, in forward passes of a
/// block. Unlike the launches of blocks they add to the device's time: fitted to vTrain's profiles of single kernels.
constexpr double kEndLaunches = 2;

}  // namespace

TransformerCost::TransformerCost(Architecture model, Workload work, Cluster cluster,
                                 Efficiency efficiency)
    : model_(std::move(model)),
      work_(std::move(work)),
      cluster_(std::move(cluster)),
      eff_(std::move(efficiency)),
      links_(cluster_, eff_),
      rates_(cluster_.device, eff_, work_.dtype) {
  const ModelConfig& m = model_.model;
  work_.length = work_.length > 0 ? work_.length : m.context;
  length_ = static_cast<double>(work_.length);
  word_ = word_of(work_.dtype);
  state_bytes_ = work_.recipe.moment_bytes +
                 (word_ < work_.recipe.master_bytes ? work_.recipe.master_bytes : 0);
  h_ = static_cast<double>(m.width);
  q_ = static_cast<double>(m.heads * m.head_width);
  kv_ = static_cast<double>(m.key_heads * m.head_width);
  up_ = m.family == Family::Llama ? 2 : 1;
  dense_blocks_ = static_cast<double>(model_.dense_blocks());
  mixture_blocks_ = static_cast<double>(model_.mixture_blocks());
  const ParameterCount count = count_parameters(model_);
  const double common =
      static_cast<double>(count.attention + count.norms) / static_cast<double>(m.layers);
  edge_parameters_ = static_cast<double>(std::max(count.embedding, count.head));
  block_parameters_ = common + (up_ + 1) * h_ * static_cast<double>(m.hidden);
  mixture_parameters_ = common + static_cast<double>(m.shared_experts) * (up_ + 1) * h_ *
                                     static_cast<double>(model_.hidden_of_expert());
  expert_parameters_ =
      mixture_blocks_ > 0 ? static_cast<double>(count.experts) / mixture_blocks_ : 0;
  for (const RecomputeMode mode :
       {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
    const TrainingFlops flops = training_flops(model_, work_.length, mode);
    hardware_[position_of(mode)] = flops.hardware / flops.model;
  }
}

void TransformerCost::add_products(const ParallelLayout& layout, double hidden, double used,
                                   BlockCost& cost) const {
  const double t = layout.tensor;
  const double m = tokens(layout);
  const auto product = [&](double rows, double n, double k) {
    cost.useful += 6 * rows * n * k / rates_.peak();
    cost.forward += rates_.matmul(rows, n, k);
    cost.backward_input += rates_.matmul(rows, k, n);
    cost.backward_weight += rates_.matmul(n, k, rows);
  };
  product(m, (q_ + 2 * kv_) / t, h_);
  product(m, h_, q_ / t);
  product(used * m, up_ * hidden / t, h_);
  product(used * m, h_, hidden / t);
}

/// Scores, softmax and the weighted sum of values.
void TransformerCost::add_attention(const ParallelLayout& layout, BlockCost& cost) const {
  const double pairs = tokens(layout) * length_;  // of a query and a key, without a mask
  const double flops = 4 * pairs * q_ / layout.tensor;
  const double before = cost.backward_input;
  cost.useful += 3 * flops / rates_.peak();
  double forward = 0;
  if (work_.attention == Workload::Attention::Fused) {
    forward = rates_.fused_attention(flops / 2);  // half of the pairs are masked
    cost.backward_input += kFusedBackward * forward;
  } else {
    const double scores = pairs * static_cast<double>(model_.model.heads) / layout.tensor;
    const double products = rates_.score_products(flops);
    forward = products + rates_.moving(kScoreBytesForward * scores);
    cost.backward_input += 2 * products + rates_.moving(kScoreBytesBackward * scores);
    cost.memory_bound += rates_.moving((kScoreBytesForward + kScoreBytesBackward) * scores);
  }
  cost.forward += forward;
  cost.attention = cost.backward_input - before + forward;
  if (layout.recompute == RecomputeMode::Selective) {
    cost.recompute += forward;
  }
}

void TransformerCost::add_element_wise(const ParallelLayout& layout, double hidden, double used,
                                       BlockCost& cost) const {
  const double t = layout.tensor;
  const double width = h_ / (layout.sequence ? t : 1);
  const double per_token = kPassesOverWidth * width + kPassesOverQueries * (q_ + 2 * kv_) / t +
                           used * (up_ + 2) * hidden / t;
  const double forward = rates_.moving(word_ * tokens(layout) * per_token);
  cost.forward += forward;
  cost.backward_input += kBackwardTraffic * forward;
  cost.memory_bound += (1 + kBackwardTraffic) * forward;
  if (layout.recompute == RecomputeMode::Selective &&
      work_.attention == Workload::Attention::Fused) {
    cost.recompute += forward;
  }
}

/// An all-reduce after attention and one after the feed-forward part, in each pass (Megatron-LM); with sequence
/// parallelism each is a reduce-scatter and an all-gather, which move as many bytes.
void TransformerCost::add_block_communication(const ParallelLayout& layout, BlockCost& cost) const {
  const double bytes = word_ * tokens(layout) * h_;
  const double passes = layout.recompute == RecomputeMode::Full ? 3 : 2;
  const double exposed = 1 - eff_.overlap;
  const GroupShape tensor = GroupShape::of(layout.tensor, 1, links_.devices_per_node());
  cost.tensor = passes * 2 * links_.allreduce(tensor, bytes) * (work_.overlap_tensor ? exposed : 1);
  if (layout.tensor > 1 && layout.tensor < links_.devices_per_node()) {
    cost.tensor += eff_.contention * (cost.compute() + cost.launch + cost.tensor);
  }
  if (layout.context > 1) {
    cost.context = context_seconds(layout, passes, cost);
  }
}

/// Keys and values of the whole sequence are gathered, and their gradients scattered, while other blocks compute. Or
/// queries, keys, values and results are resharded by heads, and back, which nothing overlaps with. Or pairs of ranks
/// exchange shards of keys and values, or of queries and results, in (p - 1) / 2 rounds of a causal ring, and in the
/// backward their gradients as well, each while attention works on the round before.
double TransformerCost::context_seconds(const ParallelLayout& layout, double passes,
                                        const BlockCost& cost) const {
  const GroupShape group = GroupShape::of(layout.context, layout.tensor, links_.devices_per_node());
  const double keys = 2 * word_ * kv_ / layout.tensor * tokens(layout);  // of a rank's own tokens
  switch (layout.context_mode) {
    case Plan::Context::Gather:
      return (passes + 1) * links_.allgather(group, keys * layout.context) * (1 - eff_.overlap);
    case Plan::Context::AllToAll:
      return passes *
             links_.alltoall(group, keys + 2 * word_ * q_ / layout.tensor * tokens(layout));
    case Plan::Context::Ring: {
      const double steps = layout.context - 1;
      const double queries = 2 * word_ * q_ / layout.tensor * tokens(layout);
      const double messages =
          (passes + 1) * steps / 2 * links_.message(group, std::max(keys, queries));
      const double beside = eff_.overlap * passes / 2 * cost.attention * steps / layout.context;
      return smooth_max(messages, beside) - beside;
    }
  }
  return 0;
}

/// After Korthikanti et al. 2022, for a dropout of 0 except where attention is not fused.
double TransformerCost::kept_bytes(const ParallelLayout& layout, double hidden, double used) const {
  const double t = layout.tensor;
  const double m = tokens(layout);
  const double width = h_ / (layout.sequence ? t : 1);
  if (layout.recompute == RecomputeMode::Full) {
    return word_ * m * width;
  }
  double bytes =
      m * word_ * (5 * width + (2 * q_ + 2 * kv_ + h_) / t + used * (up_ + 1) * hidden / t);
  if (work_.attention == Workload::Attention::Unfused && layout.recompute == RecomputeMode::None) {
    bytes += 5 * m * length_ * static_cast<double>(model_.model.heads) / t;
  }
  return bytes;
}

/// `used` is how many feed-forward parts of this hidden width a token goes through.
BlockCost TransformerCost::block(const ParallelLayout& layout, double hidden, double used) const {
  BlockCost cost;
  add_products(layout, hidden, used, cost);
  add_attention(layout, cost);
  add_element_wise(layout, hidden, used, cost);
  const bool full = layout.recompute == RecomputeMode::Full;
  cost.recompute = full ? cost.forward : cost.recompute;
  const double device = cost.compute();
  cost.launch = smooth_max(device, (full ? 4 : 3) * eff_.launch.count) - device;
  add_block_communication(layout, cost);
  const double t = layout.tensor;
  cost.activation_bytes = kept_bytes(layout, hidden, used);
  cost.working_bytes = tokens(layout) * word_ *
                       (5 * h_ / (layout.sequence ? t : 1) + 4 * q_ / t + 3 * used * hidden / t);
  if (layout.context > 1 && layout.context_mode != Plan::Context::AllToAll) {
    // Keys and values of the whole sequence, or the two shards in use and in flight.
    const double shards = layout.context_mode == Plan::Context::Gather ? layout.context : 2;
    cost.working_bytes += shards * 2 * word_ * kv_ / t * tokens(layout);
  }
  return cost;
}

TransformerCost::Blocks TransformerCost::blocks(const ParallelLayout& layout) const {
  const ModelConfig& model = model_.model;
  const double m = tokens(layout);
  Blocks blocks;
  blocks.dense = block(layout, static_cast<double>(model.hidden), 1);
  if (mixture_blocks_ > 0) {
    const auto chosen = static_cast<double>(model.experts_per_token);
    blocks.mixture = block(layout, static_cast<double>(model_.hidden_of_expert()),
                           chosen + static_cast<double>(model.shared_experts));
    const GroupShape experts =
        GroupShape::of(layout.expert, layout.tensor * layout.context, links_.devices_per_node());
    blocks.mixture.expert = 4 * links_.alltoall(experts, word_ * m * h_ * chosen / layout.tensor);
  }
  const double words = static_cast<double>(model.vocabulary) / layout.tensor;
  const double vocabulary = std::ceil(words);  // of the largest shard
  const double loss = rates_.moving(kLossBytes * m * vocabulary);
  blocks.head_useful = 6 * m * words * h_ / rates_.peak();
  blocks.head_forward = rates_.matmul(m, vocabulary, h_) + loss;
  blocks.head_backward = rates_.matmul(m, h_, vocabulary) + rates_.matmul(vocabulary, h_, m) + loss;
  blocks.head_launch = kEndLaunches * eff_.launch.count;
  blocks.head_memory_bound = 2 * loss;
  blocks.head_bytes = m * (6 * vocabulary + word_ * h_);
  if (runs_own_programs()) {
    hold_as_programs(layout, blocks);
  }
  return blocks;
}

}  // namespace trireme
