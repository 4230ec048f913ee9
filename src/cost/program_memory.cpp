// The memory of Trireme's own programs: what a rank holds at the moments at which it may hold most. Tests compare it
// with predict_memory(), category by category.
//
// Per token, a block keeps for its backward pass, of each residual stream and norm: h; of attention: queries, keys, values
// and the result; of the feed-forward part: two values for each matrix that widens, as often as a token has a slot; a few
// f32 numbers of norms and attention. Selective recomputation keeps results of matrix products, full recomputation the
// block's input.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/indexed_vector.h"
#include "cost/in_flight.h"
#include "cost/program_peak.h"
#include "cost/step_counts.h"
#include "trireme/cost.h"

namespace trireme {

struct TransformerCost::FeedForward {
  double hidden = 0;
  double slots = 1;       ///< places per token of the sequence, of all experts together
  double dispatched = 0;  ///< the same, of values that are moved to experts and back
  double parameters = 0;  ///< of a matrix, on this rank
};

/// A pipeline rank of which memory is predicted.
struct TransformerCost::HeldStage {
  double blocks = 1;
  bool first = false;
  bool last = false;
  double in_flight = 1;  ///< micro-batches between forward and backward
  double waiting =
      0;  ///< whose gradients of weights are still to be computed (zero-bubble schedules)
};

namespace {

constexpr double kStatisticBytes = 4;  // f32, per token and norm or head

}  // namespace

/// To recompute attention.
bool TransformerCost::gathers_keys(const ParallelLayout& layout) {
  return layout.context > 1 && layout.context_mode == Plan::Context::Gather &&
         layout.recompute != RecomputeMode::None;
}

/// What the programs keep of a block whose feed-forward part is this.
void TransformerCost::hold_as_programs(const ParallelLayout& layout, const FeedForward& part,
                                       BlockCost& cost) const {
  const double t = layout.tensor;
  const bool sharded = layout.sequence && layout.tensor > 1;
  const double width = h_ / (sharded ? t : 1);
  const double m = tokens(layout);
  const double norms = (model_.model.family == Family::Llama ? 1 : 2) * 2 * kStatisticBytes;
  const double statistics =
      norms / (sharded ? t : 1) + kStatisticBytes * static_cast<double>(model_.model.heads) / t;
  const double wide = up_ * part.slots * part.hidden / t;
  cost.whole_bytes =
      m * (word_ * (4 * width + (2 * q_ + 2 * kv_) / t + 2 * wide + 2 * part.dispatched * h_) +
           statistics);
  const bool full = layout.recompute == RecomputeMode::Full;
  double dispatched = 0;  // what other ranks sent of that
  if (layout.recompute == RecomputeMode::None) {
    cost.activation_bytes = cost.whole_bytes;
    dispatched = 2 * part.dispatched;
  } else {
    dispatched = full ? 0 : part.dispatched;
    const double products = full ? 0 : width + (q_ + 2 * kv_) / t + wide + dispatched * h_;
    // Llama's blocks add an unreduced result to the residual stream, and both are inputs of the next block.
    const double unreduced =
        layout.tensor > 1 && !sharded && model_.model.family == Family::Llama ? h_ : 0;
    cost.activation_bytes = word_ * m * (width + products + unreduced);
  }
  // The operands of its matrix products, and the gradients of their results.
  const bool keeps_all = layout.recompute == RecomputeMode::None;
  cost.delayed_bytes = word_ * m *
                       ((2 * q_ + 2 * kv_) / t + (1 + 1 / up_) * wide + 2 * part.dispatched * h_ +
                        (sharded ? (keeps_all ? 2 * width : 0) : 4 * h_));
  cost.delayed_received = sharded ? word_ * m * (4 * h_ + (keeps_all ? 3 * width : 0)) : 0;
  cost.received_bytes = layout.expert > 1 ? word_ * m * dispatched * h_ : 0;
  // Gathered along the sequence: the gradient of the block's result, and what full recomputation multiplies; over context
  // ranks the keys and values.
  const double keys = gathers_keys(layout) ? m * 2 * kv_ / t : 0;
  const double gathered = (sharded ? (full ? 3 : 1) * m * h_ : 0) + layout.context * keys;
  const double replaced = (sharded && full ? 2 * m * width : 0) + keys;
  const double hidden = m * (part.slots * part.hidden / t + width) + part.parameters;
  const double sums = layout.tensor > 1 ? m * 2 * h_ + 2 * part.parameters : 0;
  const bool is_sum = sums > hidden + gathered - replaced;
  cost.working_gradients = word_ * part.parameters * (is_sum ? 2 : 1);
  cost.working_received = is_sum ? 0 : word_ * gathered;
  cost.working_bytes = cost.whole_bytes - cost.activation_bytes - cost.working_gradients +
                       word_ * (is_sum ? sums : hidden - replaced);
}

void TransformerCost::hold_as_programs(const ParallelLayout& layout, Blocks& blocks) const {
  const ModelConfig& model = model_.model;
  const double t = layout.tensor;
  const auto hidden = static_cast<double>(model.hidden);
  if (dense_blocks_ > 0) {
    hold_as_programs(layout, {.hidden = hidden, .parameters = h_ * hidden / t}, blocks.dense);
  } else {
    blocks.dense.working_bytes = 0;
  }
  if (mixture_blocks_ > 0) {
    const auto experts = static_cast<double>(model.experts);
    const auto chosen = static_cast<double>(model.experts_per_token);
    // Without a limit, each expert has a slot for every token.
    const double slots =
        model.capacity_factor == 0 ? experts : std::min(experts, chosen * model.capacity_factor);
    const auto wide = static_cast<double>(model_.hidden_of_expert());
    hold_as_programs(layout,
                     {.hidden = wide,
                      .slots = slots + static_cast<double>(model.shared_experts),
                      .dispatched = slots,
                      .parameters = h_ * wide / t * experts / layout.expert},
                     blocks.mixture);
  }
}

/// Of an average block, on all tensor ranks. ZeRO shards the longest dimension that it divides, and these have others
/// before it. Those of experts are whole matrices if it divides nothing else.
double TransformerCost::strided_parameters(const ParallelLayout& layout) const {
  const bool is_gpt = model_.model.family == Family::Gpt2;
  const double in_attention = is_gpt ? q_ : q_ + 2 * kv_;
  const int ranks = layout.data / layout.expert;
  const bool divides = model_.model.width % ranks == 0 || model_.hidden_of_expert() % ranks == 0;
  const double in_experts = divides ? expert_parameters_ / layout.expert : 0;
  return h_ * in_attention + (dense_blocks_ * h_ * static_cast<double>(model_.model.hidden) +
                              mixture_blocks_ * in_experts) /
                                 (dense_blocks_ + mixture_blocks_);
}

/// Where each context rank gathers the keys and values that it attends to: what exists beside what is kept. When
/// attention is recomputed, the gradient of the feed-forward part's hidden values and of the residual stream, a norm, and
/// the result of attention; with full recomputation, also what attention reads. In its backward pass, the gradients of the
/// residual stream, of the result, of queries and of all keys and values, less what the feed-forward part kept.
double TransformerCost::attention_working(const ParallelLayout& layout) const {
  const double t = layout.tensor;
  const double hidden = static_cast<double>(model_.model.hidden) / t;
  double width = 0;
  switch (layout.recompute) {
    case RecomputeMode::None:
      width = 2 * (q_ + layout.context * kv_) / t - h_ - 2 * up_ * hidden;
      break;
    case RecomputeMode::Selective:
      width = hidden + 2 * h_ + q_ / t;
      break;
    case RecomputeMode::Full:
      width = hidden + 2 * h_ + (2 * q_ + 2 * kv_) / t;
      break;
  }
  return word_ * tokens(layout) * width;
}
/// Gathers along the sequence need scratch.
double TransformerCost::attention_received(const ParallelLayout& layout) const {
  const bool gathers = layout.context > 1 && layout.context_mode == Plan::Context::Gather;
  return gathers ? 2 * word_ * tokens(layout) * layout.context * 2 * kv_ / layout.tensor : 0;
}

TransformerCost::Memory TransformerCost::program_memory(const ParallelLayout& layout,
                                                        const Blocks& blocks,
                                                        const HeldStage& stage) const {
  const double t = layout.tensor;
  const double m = tokens(layout);
  const double all_blocks = dense_blocks_ + mixture_blocks_;
  const double share = stage.blocks / all_blocks;
  const auto sum = [&](double BlockCost::*member) {
    return share *
           (dense_blocks_ * blocks.dense.*member + mixture_blocks_ * blocks.mixture.*member);
  };
  const double in_blocks =
      word_ / t *
      (dense_blocks_ * block_parameters_ +
       mixture_blocks_ * (mixture_parameters_ + expert_parameters_ / layout.expert));
  const double matrix = word_ / t * static_cast<double>(model_.model.vocabulary) * h_;
  const bool sharded = layout.sequence && layout.tensor > 1;
  const double width = word_ * h_ / (sharded ? t : 1);
  const double in_ends =
      (stage.first ? matrix : 0) + (stage.last && !model_.model.tied ? matrix : 0);
  // Only GPT-2 has a table of positions; a gradient has the rows that occur, and no rank shards it.
  const double positions = stage.first && model_.model.family == Family::Gpt2
                               ? word_ * static_cast<double>(model_.model.context) * h_
                               : 0;
  // Another stage needs the gradient of a head that is the embedding, so that is not delayed.
  const bool sends_head = model_.model.tied && !stage.first;
  const double occurring = length_ / layout.context / static_cast<double>(model_.model.context);
  const HeldBytes held{
      .first = stage.first,
      .last = stage.last,
      .is_tied = model_.model.tied,
      .parameters = share * in_blocks + in_ends + positions,
      .trained = share * in_blocks + in_ends + positions * occurring,
      .embedding = stage.first ? matrix : 0,
      .head = stage.last || model_.model.tied ? matrix : 0,
      .block = in_blocks / all_blocks,
      .strided = word_ / t * strided_parameters(layout),
      .in_flight = stage.in_flight,
      .waiting = stage.waiting,
      .kept = sum(&BlockCost::activation_bytes),
      .kept_of_block = sum(&BlockCost::activation_bytes) / stage.blocks,
      .received = sum(&BlockCost::received_bytes),
      .delayed = sum(&BlockCost::delayed_bytes),
      .delayed_received = sum(&BlockCost::delayed_received),
      .blocks = stage.blocks,
      .working = std::max(blocks.dense.working_bytes, blocks.mixture.working_bytes),
      .working_received = std::max(blocks.dense.working_received, blocks.mixture.working_received),
      .working_gradients =
          std::max(blocks.dense.working_gradients, blocks.mixture.working_gradients),
      .attention_working = attention_working(layout),
      .before_attention = layout.recompute == RecomputeMode::None
                              ? in_blocks / all_blocks - word_ / t * h_ * (q_ + 2 * kv_)
                              : 0,
      .attention_received = attention_received(layout),
      .boundary = m * width,
      .residual = m * word_ * h_,
      .logits = m * (word_ * static_cast<double>(model_.model.vocabulary) / t + 2 * width),
      .logits_working = m * word_ * h_,
      .logits_received = sharded ? 2 * m * word_ * h_ : 0,
      .delayed_logits =
          sends_head ? 0 : m * (word_ * static_cast<double>(model_.model.vocabulary) / t + width)};
  const double shards = static_cast<double>(layout.data) / layout.expert;
  const HeldMoment peak = largest_moment(held, layout, microbatches_of(layout, work_));
  return {held.parameters / (layout.zero >= 3 ? shards : 1), peak.gradients,
          held.parameters / word_ * state_bytes_ / (layout.zero >= 1 ? shards : 1),
          peak.activations, peak.communication};
}

namespace {

/// Micro-batches whose gradients of weights the last rank of a V has delayed when its last backward pass begins: of the
/// last p - 1 on each of its stages, as far as there are so many. A V is made for 2p - 1 micro-batches at least.
double delayed_at_end_of_v(double p, double n) {
  const double down = std::clamp(n - p + 1, 0.0, p - 1);
  const double up = std::clamp(n - p, 0.0, p - 1);
  return (down + up) / 2;
}

}  // namespace

TransformerCost::Memory TransformerCost::program_memory(const ParallelLayout& layout,
                                                        const Blocks& blocks) const {
  const double n = microbatches_of(layout, work_);
  const double layers = dense_blocks_ + mixture_blocks_;
  const double stages = static_cast<double>(layout.pipe) * layout.chunks;
  const bool even = std::fmod(layers, stages) == 0;
  const double with_ends = std::ceil((layers + 2) / layout.pipe);  // see deal_blocks()
  const bool both_ends = layout.pipe == 1 || layout.schedule == PipelineForm::ZbV;
  const bool delays =
      layout.schedule == PipelineForm::ZbH1 || layout.schedule == PipelineForm::ZbH2;
  const auto blocks_beside = [&](int ends) {
    return even ? layers / layout.pipe : std::max(1.0, with_ends - ends);
  };
  const HeldStage first{.blocks = blocks_beside(both_ends ? 2 : 1),
                        .first = true,
                        .last = both_ends,
                        .in_flight = layout.pipe == 1 ? 1 : in_flight(layout, n)};
  Memory most = program_memory(layout, blocks, first);
  const auto consider = [&](const HeldStage& stage) {
    const Memory memory = program_memory(layout, blocks, stage);
    const auto total = [](const Memory& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
    most = total(memory) > total(most) ? memory : most;
  };
  if (layout.pipe > 1 && !both_ends) {
    consider({.blocks = blocks_beside(1),
              .last = true,
              .in_flight = delays ? 1 : in_flight_last(layout, n),
              .waiting = delays ? layout.pipe - 1.0 : 0});
  }
  if (layout.pipe > 1 && both_ends) {  // a V: its last rank, at the beginning and at the end
    consider({.blocks = blocks_beside(0), .in_flight = std::min<double>(n, layout.pipe)});
    consider({.blocks = blocks_beside(0),
              .in_flight = 1.0 / layout.chunks,
              .waiting = delayed_at_end_of_v(layout.pipe, n)});
  }
  if (!even && !both_ends && layout.pipe > 2) {  // the second stage has a block more than the first
    const double fewer = layout.schedule == PipelineForm::Gpipe ? 0 : 1;
    consider({.blocks = with_ends,
              .in_flight = std::max(1.0, first.in_flight - fewer),
              .waiting = delays ? 1.0 : 0});
  }
  return most;
}

TransformerCost::Memory TransformerCost::program_memory(const ParallelLayout& layout,
                                                        const Blocks& blocks,
                                                        const StageShape& shape) const {
  return program_memory(layout, blocks,
                        HeldStage{.blocks = static_cast<double>(shape.blocks),
                                  .first = shape.first,
                                  .last = shape.last,
                                  .in_flight = static_cast<double>(shape.in_flight)});
}

}  // namespace trireme
