// The memory of Trireme's own programs: what a rank holds at the moments at which it may hold most. Tests compare it
// with predict_memory(), category by category.
//
// Per token, a block keeps for its backward pass, of each residual stream and norm: h; of attention: queries, keys, values
// and the result; of the feed-forward part: two values for each matrix that widens, as often as a token has a slot; a few
// f32 numbers of norms and attention. Selective recomputation keeps results of matrix products, full recomputation the
// block's input.
//
// A stage holds most when the backward pass of a micro-batch begins: at the logits, or in its last block, where the
// hidden gradient [m, f] and that of the residual stream exist, and in a tensor group two of the latter while they are
// summed. That is so for the first micro-batch, when most micro-batches are in flight, and for a later one, when
// gradients have accumulated. With one micro-batch, the gradients of all blocks and the activations of the first one may
// be more; with short sequences, the gradient of the embedding at the end.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/indexed_vector.h"
#include "cost/in_flight.h"
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
/// Gathers that are started ahead, over the parameters of a block: those that are not contiguous take scratch as well.
constexpr double kGatheredAhead = 1.2;

/// One rank's stage, in bytes.
struct Held {
  bool first = false;
  bool last = false;
  bool is_tied = false;   ///< the head is the embedding
  double parameters = 0;  ///< not sharded by ZeRO
  double trained = 0;     ///< those that get a gradient
  double embedding = 0;   ///< of words
  double head = 0;        ///< the matrix that makes the logits
  double block = 0;       ///< parameters of a block
  double in_flight = 1;   ///< micro-batches between forward and backward
  double waiting = 0;     ///< whose gradients of weights are still to be computed
  // Of a micro-batch.
  double kept = 0;  ///< activations of all blocks of the stage
  double kept_of_block = 0;
  double received = 0;  ///< part of `kept` that other ranks sent
  double delayed = 0;   ///< instead of `kept`, until delayed gradients of weights are computed
  double delayed_received = 0;
  double blocks = 1;
  double working = 0;
  double working_gradients = 0;
  double boundary = 0;  ///< what a stage sends to the next
  double residual = 0;  ///< h of all tokens
  double logits = 0;    ///< with what the norm before them keeps
  double logits_working = 0;
  double logits_received = 0;
};

/// At one moment.
struct Moment {
  double gradients = 0;
  double activations = 0;
  double communication = 0;
};

/// The largest of the moments of one stage.
class ProgramPeak {
 public:
  ProgramPeak(const Held& held, const ParallelLayout& layout, double microbatches)
      : held_(held),
        layout_(layout),
        n_(microbatches),
        shards_(static_cast<double>(layout.data) / layout.expert) {}

  [[nodiscard]] Moment find() {
    for (const bool later : {false, true}) {
      if (later && n_ < 2) {
        break;
      }
      if (held_.last) {
        consider(at_logits(later));
      }
      consider(in_last_block(later));
      consider(at_end(later));
    }
    if (n_ < 2 && is_alone()) {
      consider(in_first_block());
    }
    return largest_;
  }

 private:
  [[nodiscard]] bool is_alone() const { return layout_.pipe == 1; }
  [[nodiscard]] bool delays() const {
    return !is_alone() &&
           (layout_.schedule == PipelineForm::ZbH1 || layout_.schedule == PipelineForm::ZbH2 ||
            layout_.schedule == PipelineForm::ZbV);
  }
  [[nodiscard]] double sharded_from(int zero, double bytes) const {
    return layout_.zero >= zero ? bytes / shards_ : bytes;
  }
  [[nodiscard]] double accumulated(bool later) const {
    return later ? sharded_from(2, held_.trained) : 0;
  }
  /// The gradient of a head that is also the embedding waits for the embedding's. Between ranks, the matrix and its
  /// gradients are messages.
  [[nodiscard]] double waiting_head() const {
    return held_.is_tied && held_.first && held_.last ? held_.head : 0;
  }
  [[nodiscard]] double sent_head() const {
    return held_.is_tied && held_.first != held_.last ? held_.head : 0;
  }
  /// The last stage's gradients of it wait for the first stage's, which come 2 (p - 1) micro-batches later.
  [[nodiscard]] double sent_gradients() const {
    return std::min(n_ - 1, 2.0 * (layout_.pipe - 1)) * sent_head();
  }

  /// With the sequence sharded over a tensor group, the gradient of the embedding is that of all words until it is
  /// reduced.
  [[nodiscard]] bool gathers_all_words() const {
    return held_.first && layout_.sequence && layout_.tensor > 1;
  }

  /// Gradients of the micro-batch before that are still being reduced: of the embedding, the last of its backward pass.
  [[nodiscard]] double still_reduced() const {
    if (layout_.zero >= 2 && shards_ > 1) {
      return held_.embedding;
    }
    return gathers_all_words() && !delays()
               ? held_.embedding * layout_.tensor * std::min(2, layout_.chunks)
               : 0;
  }

  void consider(const Moment& moment) {
    const auto sum = [](const Moment& m) { return m.gradients + m.activations + m.communication; };
    if (sum(moment) > sum(largest_)) {
      largest_ = moment;
    }
  }

  /// Of all micro-batches in flight when the backward pass of one begins, or, if `passed` is not 0, when it has been
  /// through so much of the stage. `in_use` is gathered by ZeRO 3.
  [[nodiscard]] Moment in_flight(bool later, double in_use, double passed = 0) const {
    const double left = n_ - (later ? 1 : 0);
    const double all = std::min(left, held_.in_flight);
    const double k = std::max(0.0, all - passed);
    const double delayed = std::min(left - all, held_.waiting) + (all - k);
    Moment moment{
        .gradients = accumulated(later),
        .activations = k * (held_.kept - held_.received) + delayed * held_.delayed,
        .communication = k * held_.received + delayed * held_.delayed_received + gathered(in_use)};
    moment.gradients += later ? still_reduced() : 0;
    if (!is_alone()) {
      add_pipeline(later, k, delayed, moment);
    }
    return moment;
  }

  /// The inputs of a stage were received, so they are communication. With GPipe, what a stage sent stays until the
  /// backward pass begins, and so do all logits.
  void add_pipeline(bool later, double k, double delayed, Moment& moment) const {
    const double chunks = k * layout_.chunks;
    const double of_first = held_.first ? std::min(chunks, std::min(n_, 2.0 * layout_.pipe)) : 0;
    const double inputs = held_.first && layout_.chunks == 1 ? 0 : chunks - of_first;
    const double under_way = held_.last ? 1 : held_.first ? 2 : 3;
    moment.activations -= inputs * held_.boundary;
    moment.communication += (inputs + under_way) * held_.boundary;
    const bool forward_first = layout_.schedule == PipelineForm::Gpipe;
    if (held_.last) {
      const double more = forward_first ? k - 1 : held_.first ? 0 : delayed;
      moment.activations += held_.logits * more + (later ? sent_gradients() : 0);
      moment.communication += held_.logits_received * more + sent_head();
    } else if (forward_first) {
      moment.activations += (k - 1) * held_.boundary;
    }
  }

  /// ZeRO 3: the parameters in use and those gathered ahead; with several micro-batches, each stays until the last of
  /// them has used it, in the forward and in the backward pass.
  [[nodiscard]] double gathered(double in_use) const {
    if (layout_.zero < 3 || shards_ <= 1) {
      return 0;
    }
    const bool twice = n_ > 2 || layout_.recompute != RecomputeMode::None;
    const double kept = n_ < 2 ? 0 : twice ? 2 * held_.blocks * held_.block : held_.parameters;
    return in_use + kGatheredAhead * held_.block + kept;
  }

  [[nodiscard]] Moment at_logits(bool later) const {
    Moment moment = in_flight(later, held_.head);
    moment.activations += held_.logits + held_.logits_working;
    moment.communication += held_.logits_received;
    moment.gradients += held_.head;
    return moment;
  }

  /// Where gradients of weights are delayed and need more than was kept, the end of the stage's backward pass.
  [[nodiscard]] Moment in_last_block(bool later) const {
    const bool grows = delays() && held_.delayed + held_.delayed_received > held_.kept;
    Moment moment = in_flight(later, held_.block, grows ? 1.0 / layout_.chunks : 0);
    moment.activations += held_.working + (grows ? (held_.kept - held_.delayed) / held_.blocks : 0);
    const bool scatters = later && layout_.zero >= 2 && shards_ > 1;  // before and after
    moment.gradients +=
        held_.working_gradients * (scatters ? 2 : 1) + (later        ? waiting_head()
                                                        : held_.last ? sharded_from(1, held_.head)
                                                                     : 0);
    return moment;
  }

  [[nodiscard]] Moment in_first_block() const {
    return {.gradients = sharded_from(1, held_.trained - held_.embedding) + waiting_head(),
            .activations = held_.kept_of_block + held_.working,
            .communication = gathered(held_.block)};
  }

  /// The gradient of the embedding is whole before it is reduced.
  [[nodiscard]] Moment at_end(bool later) const {
    const double embedding = gathers_all_words()
                                 ? held_.embedding * (layout_.tensor + (n_ > 1 ? 1 : 0))
                                 : held_.embedding;
    const double others = held_.trained - (layout_.zero == 0 ? held_.embedding : 0);
    return {.gradients = embedding + (held_.first ? waiting_head() : 0) +
                         (later ? accumulated(later) : sharded_from(1, others)),
            .activations = held_.residual + (held_.last ? sent_gradients() : 0),
            .communication = gathered(held_.block) + (held_.first  ? 2 * sent_head()
                                                      : held_.last ? sent_head()
                                                                   : 0)};
  }

  const Held& held_;  // both are the caller's, which outlives this object
  const ParallelLayout& layout_;
  double n_;
  double shards_;
  Moment largest_{};
};

}  // namespace

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
  double dispatched = 0;  // what other ranks sent of that
  if (layout.recompute == RecomputeMode::None) {
    cost.activation_bytes = cost.whole_bytes;
    dispatched = 2 * part.dispatched;
  } else {
    const bool full = layout.recompute == RecomputeMode::Full;
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
  const double hidden = m * (part.slots * part.hidden / t + width) + part.parameters;
  const double sums = layout.tensor > 1 ? m * 2 * h_ + 2 * part.parameters : 0;
  cost.working_gradients = word_ * part.parameters * (sums > hidden ? 2 : 1);
  cost.working_bytes = cost.whole_bytes - cost.activation_bytes + word_ * std::max(hidden, sums) -
                       cost.working_gradients;
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
  const double occurring = length_ / layout.context / static_cast<double>(model_.model.context);
  const Held held{
      .first = stage.first,
      .last = stage.last,
      .is_tied = model_.model.tied,
      .parameters = share * in_blocks + in_ends + positions,
      .trained = share * in_blocks + in_ends + positions * occurring,
      .embedding = stage.first ? matrix : 0,
      .head = stage.last || model_.model.tied ? matrix : 0,
      .block = in_blocks / all_blocks,
      .in_flight = stage.in_flight,
      .waiting = stage.waiting,
      .kept = sum(&BlockCost::activation_bytes),
      .kept_of_block = sum(&BlockCost::activation_bytes) / stage.blocks,
      .received = sum(&BlockCost::received_bytes),
      .delayed = sum(&BlockCost::delayed_bytes),
      .delayed_received = sum(&BlockCost::delayed_received),
      .blocks = stage.blocks,

      .working = std::max(blocks.dense.working_bytes, blocks.mixture.working_bytes),
      .working_gradients =
          std::max(blocks.dense.working_gradients, blocks.mixture.working_gradients),
      .boundary = m * width,
      .residual = m * word_ * h_,
      .logits = m * (word_ * static_cast<double>(model_.model.vocabulary) / t + 2 * width),
      .logits_working = m * word_ * h_,
      .logits_received = sharded ? 2 * m * word_ * h_ : 0};
  const double shards = static_cast<double>(layout.data) / layout.expert;
  const Moment peak = ProgramPeak(held, layout, microbatches_of(layout, work_)).find();
  return {held.parameters / (layout.zero >= 3 ? shards : 1), peak.gradients,
          held.parameters / word_ * state_bytes_ / (layout.zero >= 1 ? shards : 1),
          peak.activations, peak.communication};
}

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
  HeldStage other{.blocks = blocks_beside(both_ends ? 0 : 1)};
  if (!both_ends) {
    other.last = true;
    other.in_flight = delays ? 1 : in_flight_last(layout, n);
    other.waiting = delays ? layout.pipe - 1.0 : 0;
  } else {  // a V, whose first rank has both ends: the last one delays most
    other.in_flight = 1.0 / layout.chunks;
    other.waiting = layout.pipe - 1.0;
  }
  Memory most = program_memory(layout, blocks, first);
  const auto consider = [&](const HeldStage& stage) {
    const Memory memory = program_memory(layout, blocks, stage);
    const auto total = [](const Memory& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
    most = total(memory) > total(most) ? memory : most;
  };
  if (layout.pipe > 1) {
    consider(other);
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
