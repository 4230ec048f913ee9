// When a rank holds most of what a stage of Trireme's own programs needs. See program_memory.cpp for what a block keeps.
//
// A stage holds most when the backward pass of a micro-batch begins: at the logits, or in its last block, where the
// hidden gradient [m, f] and that of the residual stream exist, and in a tensor group two of the latter while they are
// summed. That is so for the first micro-batch, when most micro-batches are in flight, and for a later one, when
// gradients have accumulated. With one micro-batch, the gradients of all blocks and the activations of the first one may
// be more; with short sequences, the gradient of the embedding at the end.
//
// Pure; callable from any thread.
#pragma once

#include "trireme/cost.h"

namespace trireme {

/// One rank's stage, in bytes.
struct HeldBytes {
  bool first = false;
  bool last = false;
  bool is_tied = false;   ///< the head is the embedding
  double parameters = 0;  ///< not sharded by ZeRO
  double trained = 0;     ///< those that get a gradient
  double embedding = 0;   ///< of words
  double head = 0;        ///< the matrix that makes the logits
  double block = 0;       ///< parameters of a block
  double strided = 0;     ///< those whose ZeRO shards are not contiguous, so that they need scratch
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
  double working_received = 0;
  double working_gradients = 0;
  double attention_working =
      0;  ///< beside what is kept, when attention is recomputed or its backward pass runs
  double before_attention = 0;    ///< gradients of a block that exist at its backward pass
  double attention_received = 0;  ///< keys and values of all context ranks, with scratch
  double boundary = 0;            ///< what a stage sends to the next
  double residual = 0;            ///< h of all tokens
  double logits = 0;              ///< with what the norm before them keeps
  double logits_working = 0;
  double logits_received = 0;
  double delayed_logits = 0;  ///< what the delayed gradient of the head needs
};

/// At one moment.
struct HeldMoment {
  double gradients = 0;
  double activations = 0;
  double communication = 0;
};

/// The moment at which the stage holds most in a step of so many micro-batches.
[[nodiscard]] HeldMoment largest_moment(const HeldBytes& held, const ParallelLayout& layout,
                                        double microbatches);

}  // namespace trireme
