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

/// How much longer tensor cores take for operands whose rows are not aligned to 16 bytes: loads are half as wide for each
/// factor of two that is missing. From vTrain's profiles with a vocabulary of 50257 words, whole or in halves, quarters
/// and eighths.
double alignment_penalty(double size) {
  constexpr std::int64_t kAligned = 8;  // elements of 16 bits
  constexpr double kHalfWidthLoads = 1.4;
  double penalty = 1;
  for (std::int64_t width = kAligned; width > 1 && std::fmod(size, width) != 0; width /= 2) {
    penalty *= kHalfWidthLoads;
  }
  return penalty;
}

}  // namespace

TransformerCost::TransformerCost(Architecture model, Workload work, Cluster cluster,
                                 Efficiency efficiency)
    : model_(std::move(model)),
      work_(std::move(work)),
      cluster_(std::move(cluster)),
      eff_(std::move(efficiency)),
      links_(cluster_, eff_) {
  const DeviceSpec& device = cluster_.device;
  const std::optional<FlopRate> peak = device.peak(work_.dtype);
  const std::optional<FlopRate> bf16 = device.peak("bf16");
  const std::optional<FlopRate> peak16 = bf16 ? bf16 : device.peak("f16");
  if (!peak || !device.memory_bandwidth) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the {} of {} is not known; {}give it in a cluster file (--cluster FILE), "
                    "which trireme probe --output writes for this host",
                    peak ? "memory bandwidth" : work_.dtype + " peak", device.name,
                    !peak && device.peak("f32") ? "use --dtype f32, or " : ""));
  }
  peak_ = peak->count;
  peak16_ = std::min(peak_, peak16 ? peak16->count : peak_);
  matmul_rate_ = peak_ * (work_.dtype == "f4"                          ? eff_.matmul4
                          : work_.dtype == "f8" || work_.dtype == "i8" ? eff_.matmul8
                                                                       : eff_.matmul);
  bandwidth_ = device.memory_bandwidth->count;
  const ModelConfig& m = model_.model;
  work_.length = work_.length > 0 ? work_.length : m.context;
  length_ = static_cast<double>(work_.length);
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

double TransformerCost::moving(double bytes) const {
  return bytes / (bandwidth_ * eff_.memory);
}

/// What filling tiles and the last, partly filled wave of tiles over the multiprocessors cost, as a factor. Where a
/// product has few tiles, K is split as well: then there are more of them, each with less to do between filling and
/// draining.
double TransformerCost::tile_overhead(double m, double n, double k) const {
  constexpr int kMaxSplit = 16;
  if (eff_.units == 0) {
    return 1 + eff_.depth / k;
  }
  const double full = std::ceil(m / eff_.tile_rows) * std::ceil(n / eff_.tile_columns) / eff_.units;
  double best = std::numeric_limits<double>::infinity();
  for (int split = 1; split <= kMaxSplit; split *= 2) {
    const double waves = std::ceil(full * split) / (full * split);
    best = std::min(best, waves * (1 + eff_.depth * split / k));
  }
  return best * alignment_penalty(m) * alignment_penalty(n) * alignment_penalty(k);
}

/// M x K by K x N; see Efficiency.
double TransformerCost::matmul(double m, double n, double k) const {
  const double compute = 2 * m * n * k / matmul_rate_ * tile_overhead(m, n, k);
  return smooth_max(compute, moving(kWord * (m * k + k * n + m * n)));
}

void TransformerCost::add_products(const ParallelLayout& layout, double hidden, double used,
                                   BlockCost& cost) const {
  const double t = layout.tensor;
  const double m = tokens(layout);
  const auto product = [&](double rows, double n, double k) {
    cost.useful += 6 * rows * n * k / peak_;
    cost.forward += matmul(rows, n, k);
    cost.backward_input += matmul(rows, k, n);
    cost.backward_weight += matmul(n, k, rows);
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
  cost.useful += 3 * flops / peak_;
  double forward = 0;
  if (work_.attention == Workload::Attention::Fused) {
    forward = flops / 2 / (peak16_ * eff_.attention);  // half of the pairs are masked
    cost.backward_input += kFusedBackward * forward;
  } else {
    const double scores = pairs * static_cast<double>(model_.model.heads) / layout.tensor;
    const double products = flops / (peak16_ * eff_.scores);
    forward = products + moving(kScoreBytesForward * scores);
    cost.backward_input += 2 * products + moving(kScoreBytesBackward * scores);
    cost.memory_bound += moving((kScoreBytesForward + kScoreBytesBackward) * scores);
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
  const double forward = moving(kWord * tokens(layout) * per_token);
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
  const double bytes = kWord * tokens(layout) * h_;
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
  const double keys = 2 * kWord * kv_ / layout.tensor * tokens(layout);  // of a rank's own tokens
  switch (layout.context_mode) {
    case Plan::Context::Gather:
      return (passes + 1) * links_.allgather(group, keys * layout.context) * (1 - eff_.overlap);
    case Plan::Context::AllToAll:
      return passes *
             links_.alltoall(group, keys + 2 * kWord * q_ / layout.tensor * tokens(layout));
    case Plan::Context::Ring: {
      const double steps = layout.context - 1;
      const double queries = 2 * kWord * q_ / layout.tensor * tokens(layout);
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
    return kWord * m * width;
  }
  double bytes = m * (10 * width + (4 * q_ + 4 * kv_ + 2 * h_) / t) +
                 used * m * kWord * (up_ + 1) * hidden / t;
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
  cost.working_bytes =
      tokens(layout) * (10 * h_ / (layout.sequence ? t : 1) + 8 * q_ / t + 6 * used * hidden / t);
  if (layout.context > 1 && layout.context_mode != Plan::Context::AllToAll) {
    // Keys and values of the whole sequence, or the two shards in use and in flight.
    const double shards = layout.context_mode == Plan::Context::Gather ? layout.context : 2;
    cost.working_bytes += shards * 2 * kWord * kv_ / t * tokens(layout);
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
    blocks.mixture.expert = 4 * links_.alltoall(experts, kWord * m * h_ * chosen / layout.tensor);
  }
  const double words = static_cast<double>(model.vocabulary) / layout.tensor;
  const double vocabulary = std::ceil(words);  // of the largest shard
  const double loss = moving(kLossBytes * m * vocabulary);
  blocks.head_useful = 6 * m * words * h_ / peak_;
  blocks.head_forward = matmul(m, vocabulary, h_) + loss;
  blocks.head_backward = matmul(m, h_, vocabulary) + matmul(vocabulary, h_, m) + loss;
  blocks.head_launch = kEndLaunches * eff_.launch.count;
  blocks.head_memory_bound = 2 * loss;
  blocks.head_bytes = m * (6 * vocabulary + kWord * h_);
  return blocks;
}

}  // namespace trireme
