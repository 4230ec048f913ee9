// A language model as a step that continues sequences, with a key-value cache. Callable from any thread.
#pragma once

#include <cstdint>

#include "trireme/model.h"

namespace trireme {

/// The size of a decoding step.
struct DecodeShape {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;    ///< of each sequence in one step
  std::int64_t capacity = 1;  ///< the longest sequence, at most the model's context
};

/// The model as a step that continues sequences. It has the parameters of make_model(), and
///
///   inputs   tokens i32[B,T], the next ones; positions i32[B,T], theirs in the sequence, from 0;
///            last i32[B,1], the index among the T tokens whose logits are wanted
///   state    the keys and values of all positions so far, [B,capacity,heads,head]: a step writes those of its tokens
///   outputs  logits [B,1,vocabulary]
///
/// Experts never drop tokens. Throws Error(Usage) if the capacity exceeds the context, or if routers pick tokens
/// (mixture of depths), which requires the whole sequence.
[[nodiscard]] Model make_decode_model(const ModelConfig& config, const DecodeShape& shape);

}  // namespace trireme
