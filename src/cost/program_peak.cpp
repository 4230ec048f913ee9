// ZeRO: reduce-scatters in flight keep their inputs, as many bytes as a block's gradients (src/program/waits.cpp). So the
// gradients of a block are there while the next one runs, whole and sharded, with scratch for those whose shards are not
// contiguous. Gathers are started a block ahead (src/partition/early_gathers.cpp).
//
// Delayed gradients of weights (zero-bubble schedules) keep the operands of their products until then: no gradient of a
// weight exists in the backward pass of the first micro-batches, but that of a head that is the embedding does, since
// another stage waits for it.
#include "cost/program_peak.h"

#include <algorithm>

namespace trireme {
namespace {

/// How far a step is when a micro-batch's backward pass begins.
struct Progress {
  double accumulated = 0;   ///< bytes of gradients that earlier micro-batches left, unsharded
  double left = 0;          ///< micro-batches that are not through their backward pass
  bool first = true;        ///< none is
  bool last_chunk = false;  ///< some are through that of the last chunk only
};

/// The largest of the moments of one stage.
class ProgramPeak {
 public:
  ProgramPeak(const HeldBytes& held, const ParallelLayout& layout, double microbatches)
      : held_(held),
        layout_(layout),
        n_(microbatches),
        shards_(static_cast<double>(layout.data) / layout.expert) {}

  [[nodiscard]] HeldMoment find() {
    consider_all({.left = n_});
    if (has_chunks() && n_ > 1) {
      consider_all({.accumulated = last_chunk(),
                    .left = is_v() ? n_ : n_ - 1.0 / layout_.chunks,
                    .first = false,
                    .last_chunk = true});
    }
    if (n_ > before_accumulation()) {
      consider_all({.accumulated = held_.trained, .left = left_later(), .first = false});
    }
    if (n_ < 2 || (is_alone() && scatters(3))) {
      consider(in_first_block());
    }
    if (overlaps_scatters(n_ < 2 ? 1 : 2) && !delays() && held_.blocks > 1) {
      consider(in_second_block());
    }
    return largest_;
  }

 private:
  [[nodiscard]] bool is_alone() const { return layout_.pipe == 1; }
  [[nodiscard]] bool is_v() const { return !is_alone() && layout_.schedule == PipelineForm::ZbV; }
  [[nodiscard]] bool has_chunks() const { return !is_alone() && layout_.chunks > 1; }
  [[nodiscard]] bool delays() const {
    return !is_alone() &&
           (layout_.schedule == PipelineForm::ZbH1 || layout_.schedule == PipelineForm::ZbH2 ||
            layout_.schedule == PipelineForm::ZbV);
  }
  /// Whether some forward passes come after the first backward pass.
  [[nodiscard]] bool is_steady() const { return n_ > layout_.pipe; }
  [[nodiscard]] bool forwards_first() const {
    return !is_alone() && layout_.schedule == PipelineForm::Gpipe;
  }
  /// Whether reduce-scatters in flight keep their inputs. With context ranks, the shards are then all-reduced, so that
  /// each is waited for.
  [[nodiscard]] bool overlaps_scatters(int zero) const {
    return scatters(zero) && layout_.context == 1;
  }
  /// Whether gradients are sharded, at this level of ZeRO and above.
  [[nodiscard]] bool scatters(int zero) const { return layout_.zero >= zero && shards_ > 1; }
  [[nodiscard]] double sharded_from(int zero, double bytes) const {
    return layout_.zero >= zero ? bytes / shards_ : bytes;
  }

  // How far the step is.

  /// Gradients of the last of the rank's stages.
  [[nodiscard]] double last_chunk() const {
    const double ends = (held_.first ? held_.embedding : 0) + (held_.last ? held_.head : 0);
    return (held_.trained - ends) / layout_.chunks + (held_.last ? held_.head : 0);
  }
  /// The most micro-batches whose backward passes begin before all gradients of one are computed.
  [[nodiscard]] double before_accumulation() const {
    if (is_v()) {
      return layout_.pipe;
    }
    return delays() ? 1 + held_.waiting : 1;
  }
  [[nodiscard]] double left_later() const {
    if (is_v()) {
      return n_ / layout_.chunks;
    }
    const double passed = (layout_.chunks - 1) * layout_.pipe + 1;  // stages of micro-batches
    return n_ - (has_chunks() ? passed / layout_.chunks : 1);
  }
  [[nodiscard]] double accumulated(const Progress& progress) const {
    return sharded_from(2, progress.accumulated);
  }

  // Heads and embeddings.

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
  /// The first stage receives such a gradient for its next task as well. That is another backward pass, except where
  /// forward passes are left.
  [[nodiscard]] double received_gradients(const Progress& progress) const {
    const bool before_forward =
        layout_.schedule == PipelineForm::Naive || (progress.first && is_steady());
    return std::min(progress.left, before_forward ? 1.0 : 2.0) * sent_head();
  }
  /// The gradient of the head in the backward pass of the first micro-batch's last block. A reduce-scatter in flight
  /// keeps its input until as many bytes as a block's gradients are in flight after it.
  [[nodiscard]] double head_gradient() const {
    if (!held_.last) {
      return 0;
    }
    if (!scatters(1) || waiting_head() > 0) {
      return held_.head;
    }
    const bool in_flight = n_ < 2 && overlaps_scatters(1) && held_.head <= held_.block;
    return held_.head / shards_ + (in_flight ? held_.head : 0);
  }

  /// With the sequence sharded over a tensor group, the gradient of the embedding is that of all words until it is
  /// reduced.
  [[nodiscard]] bool gathers_all_words() const {
    return held_.first && layout_.sequence && layout_.tensor > 1;
  }

  /// Gradients that are still being reduced when a micro-batch's last gradient was `latest`: as many as a block has, or
  /// one that is larger.
  [[nodiscard]] double window(double latest) const { return std::max(latest, held_.block); }
  /// At the logits, of the micro-batch before, whose last gradient was the embedding's.
  [[nodiscard]] double still_reduced() const {
    const bool separate = gathers_all_words() && waiting_head() == 0 && !delays();
    const double all_words = separate ? held_.embedding * layout_.tensor : 0;
    return overlaps_scatters(2) ? std::max(all_words, window(held_.embedding)) : all_words;
  }
  /// In the last block, after which a head that is larger than a block has been reduced.
  [[nodiscard]] double still_reduced_in_block() const {
    const bool was_reduced = scatters(2) && held_.last && held_.head > held_.block;
    return was_reduced ? 0 : still_reduced();
  }

  /// Gradients in the last block that are not its own: the head's, and those in flight.
  [[nodiscard]] double of_head(const Progress& progress) const {
    return progress.first ? head_gradient() : waiting_head() + still_reduced_in_block();
  }

  void consider_all(const Progress& progress) {
    const bool has_logits = progress.first || progress.last_chunk || !has_chunks() || is_steady();
    if (held_.last && has_logits) {
      consider(at_logits(progress));
    }
    consider(delays() ? in_delaying_block(progress) : in_last_block(progress));
    if (held_.attention_received > 0) {
      consider(at_attention(progress));
    }
    consider(at_end(progress));
  }
  void consider(const HeldMoment& moment) {
    const auto sum = [](const HeldMoment& m) {
      return m.gradients + m.activations + m.communication;
    };
    if (sum(moment) > sum(largest_)) {
      largest_ = moment;
    }
  }

  /// Of all micro-batches in flight when the backward pass of one begins, or, if `passed` is not 0, when it has been
  /// through so much of the stage. `in_use` is gathered by ZeRO 3.
  [[nodiscard]] HeldMoment in_flight(const Progress& progress, double in_use,
                                     double passed = 0) const {
    const double all = std::min(progress.left, held_.in_flight);
    const double k = std::max(0.0, all - passed);
    const double waiting = std::min(progress.left - all, held_.waiting);
    const double delayed = waiting + (all - k);
    HeldMoment moment{.gradients = accumulated(progress),
                      .activations = k * (held_.kept - held_.received) + delayed * held_.delayed,
                      .communication = k * held_.received + delayed * held_.delayed_received +
                                       gathered(progress, in_use)};
    if (!is_alone()) {
      add_messages(progress, k, moment);
    }
    if (!is_alone() && held_.last) {
      add_logits(progress, k, waiting, moment);
    } else if (!is_alone() && held_.first) {
      moment.communication += received_gradients(progress);
    }
    return moment;
  }

  /// The inputs of a stage were received, so they are communication. With GPipe, what a stage sent stays until the
  /// backward pass begins.
  void add_messages(const Progress& progress, double k, HeldMoment& moment) const {
    const double chunks = k * layout_.chunks;
    const double of_first = held_.first ? std::min(chunks, std::min(n_, 2.0 * layout_.pipe)) : 0;
    const double inputs = held_.first && layout_.chunks == 1 ? 0 : chunks - of_first;
    moment.activations -= inputs * held_.boundary;
    moment.communication += (inputs + messages(progress)) * held_.boundary;
    if (forwards_first() && held_.first) {
      moment.activations += (k - 1) * held_.boundary;
    }
  }
  /// Messages in flight. A send lasts until the receiver is known to have begun its task. Of stages on one rank, one
  /// sends a gradient while another sends activations; when both directions are busy, two of the latter.
  [[nodiscard]] double messages(const Progress& progress) const {
    if (n_ < 2) {
      return 0;
    }
    if (is_v()) {
      return is_steady() && !progress.first && !progress.last_chunk ? 2 : 1;
    }
    if (has_chunks()) {
      return is_steady() ? 4 : 2;
    }
    if (held_.last) {
      return 1;
    }
    if (held_.first) {
      return 2;
    }
    return forwards_first() ? 1 : 3;
  }
  /// Of micro-batches other than the one whose backward pass begins.
  void add_logits(const Progress& progress, double k, double waiting, HeldMoment& moment) const {
    moment.activations += progress.first ? waiting * sent_head() : sent_gradients();
    moment.communication += sent_head();
    if (forwards_first()) {
      moment.activations += (k - 1) * held_.logits;
      moment.communication += (k - 1) * held_.logits_received;
    } else {
      moment.activations += waiting * held_.delayed_logits;
      moment.communication += waiting * held_.logits_received;
    }
  }

  /// ZeRO 3: the parameters in use, and those of a block that are gathered ahead. With several micro-batches, each stays
  /// until the last of them has used it, in the forward and again in the backward pass.
  [[nodiscard]] double gathered(const Progress& progress, double in_use) const {
    if (!scatters(3)) {
      return 0;
    }
    const double started = in_use + held_.block + held_.strided;
    if (n_ < 2) {
      return started;
    }
    const double head = held_.last ? held_.head : 0;
    const double for_backward = progress.first ? head + started : gathered_for_backward();
    return for_backward + (is_forward_left(progress) ? held_.parameters : 0);
  }
  /// All parameters but an embedding, which the backward pass does not use.
  [[nodiscard]] double gathered_for_backward() const {
    return held_.parameters - (waiting_head() > 0 ? 0 : held_.embedding);
  }
  [[nodiscard]] bool is_forward_left(const Progress& progress) const {
    if (is_alone() || (held_.last && !forwards_first())) {
      return n_ > (progress.first ? 1 : 2);
    }
    return is_steady() && !forwards_first();
  }
  /// The parameters of a block that are in use when its first gradient exists: those with which it was recomputed.
  [[nodiscard]] double in_use() const {
    return layout_.recompute == RecomputeMode::Full ? held_.block - held_.working_gradients : 0;
  }

  [[nodiscard]] HeldMoment at_logits(const Progress& progress) const {
    HeldMoment moment = in_flight(progress, held_.head);
    moment.activations += held_.logits + held_.logits_working;
    moment.communication += held_.logits_received;
    // With ZeRO 3, that replaces the gathered matrix, unless later micro-batches need it.
    const bool before_gradient = delays() || (scatters(3) && (n_ < 2 || progress.first));
    moment.gradients += (before_gradient ? 0 : held_.head) + (progress.first ? 0 : still_reduced());
    return moment;
  }

  [[nodiscard]] HeldMoment in_last_block(const Progress& progress) const {
    HeldMoment moment = in_flight(progress, in_use());
    moment.activations += held_.working;
    moment.communication += held_.working_received;
    const bool before_and_after = !progress.first && scatters(2);
    moment.gradients += held_.working_gradients * (before_and_after ? 2 : 1) + of_head(progress);
    return moment;
  }

  /// Where gradients of weights are delayed, the last block; or if they need more than was kept, the end of the stage's
  /// backward pass. The gradient of the block's result is one of the operands that stay.
  [[nodiscard]] HeldMoment in_delaying_block(const Progress& progress) const {
    const bool grows = held_.delayed + held_.delayed_received > held_.kept;
    HeldMoment moment = in_flight(progress, held_.block, grows ? 1.0 / layout_.chunks : 0);
    moment.activations += held_.working + held_.residual;
    moment.communication += held_.working_received;
    if (grows) {
      moment.activations += (held_.kept - held_.delayed) / held_.blocks;
    }
    if (held_.last) {
      moment.activations += held_.delayed_logits + (progress.first ? sent_head() : 0);
      moment.communication += held_.logits_received;
    }
    return moment;
  }

  /// Where the last block gathers the keys and values of all context ranks: to recompute attention, or for its backward
  /// pass.
  [[nodiscard]] HeldMoment at_attention(const Progress& progress) const {
    HeldMoment moment = in_flight(progress, in_use());
    moment.activations += held_.attention_working;
    moment.communication += held_.attention_received;
    moment.gradients += held_.before_attention + of_head(progress);
    return moment;
  }

  /// The block after the last one in the backward pass: the gradients of the last one are still being reduced.
  [[nodiscard]] HeldMoment in_second_block() const {
    HeldMoment moment = in_flight({.left = n_}, in_use());
    if (scatters(3) && held_.blocks <= 2) {  // nothing is left to be gathered ahead
      moment.communication -= held_.block + held_.strided;
    }
    const double head = held_.last ? held_.head / (waiting_head() > 0 ? 1 : shards_) : 0;
    moment.gradients += held_.block * (1 + 1 / shards_) + held_.working_gradients + head;
    moment.activations += held_.working - held_.kept_of_block;
    moment.communication +=
        held_.strided + held_.working_received + (n_ > 1 && scatters(3) ? held_.block : 0);
    return moment;
  }

  /// Of the first micro-batch.
  [[nodiscard]] double gathered_in_first_block() const {
    if (n_ < 2) {
      return gathered({}, in_use());
    }
    return scatters(3) ? gathered_for_backward() + held_.parameters : 0;
  }
  [[nodiscard]] HeldMoment in_first_block() const {
    const double of_later_blocks = held_.trained - held_.embedding - held_.block;
    return {.gradients = sharded_from(1, of_later_blocks) +
                         (overlaps_scatters(1) ? held_.block : 0) + held_.working_gradients +
                         waiting_head(),
            .activations = held_.kept_of_block + held_.working,
            .communication = gathered_in_first_block() + held_.working_received +
                             (overlaps_scatters(1) ? held_.strided : 0)};
  }

  /// The gradient of the embedding is whole before it is reduced.
  [[nodiscard]] HeldMoment at_end(const Progress& progress) const {
    const double embedding = gathers_all_words()
                                 ? held_.embedding * (layout_.tensor + (n_ > 1 ? 1 : 0))
                                 : held_.embedding;
    const double others = held_.trained - (layout_.zero == 0 ? held_.embedding : 0);
    const double exchanged_heads = (held_.first ? 2 : 0) + (held_.last ? 1 : 0);
    return {.gradients = embedding + (held_.first ? waiting_head() : 0) +
                         (progress.first ? sharded_from(1, others) : accumulated(progress)),
            .activations = held_.residual + (held_.last ? sent_gradients() : 0),
            .communication = gathered(progress, held_.block) + exchanged_heads * sent_head()};
  }

  const HeldBytes& held_;  // both are the caller's, which outlives this object
  const ParallelLayout& layout_;
  double n_;
  double shards_;
  HeldMoment largest_{};
};

}  // namespace

HeldMoment largest_moment(const HeldBytes& held, const ParallelLayout& layout,
                          double microbatches) {
  return ProgramPeak(held, layout, microbatches).find();
}

}  // namespace trireme
