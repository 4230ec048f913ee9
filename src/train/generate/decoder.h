// Decoder: the logits of the next token of one growing sequence, with or without a key-value cache. One thread at a
// time; all ranks make the same calls in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/generate/source.h"
#include "train/step/sharded_execution.h"
#include "trireme/compiled_plan.h"
#include "trireme/generate.h"
#include "trireme/model.h"

namespace trireme::train {

struct DecoderOptions {
  ModelConfig config{};
  Plan plan{};
  std::int64_t capacity = 1;  ///< the longest sequence
  KeyValueCache cache = KeyValueCache::Used;
};

/// The programs of all ranks: made once, before they start.
struct CompiledDecoder {
  DecoderOptions options{};
  std::vector<ModelParameter> parameters{};
  CompiledPlan compiled;
};
/// Throws as make_decode_model(), and Error(Usage) if the plan does not suit the model.
[[nodiscard]] CompiledDecoder compile_decoder(const DecoderOptions& options);

class Decoder {
 public:
  /// `compiled`, the device and the communicator must outlive this object.
  Decoder(const CompiledDecoder& compiled, const ModelSource& source, Device& device,
          Communicator* communicator);

  /// Continues the sequence. Requires that it has not reached the capacity. With the cache, a trace gets one span per
  /// kernel.
  void append(std::int32_t token, Trace* trace = nullptr);
  /// The logits of the next token, on rank 0; empty on the others. Requires a token.
  [[nodiscard]] std::span<const float> logits();
  /// Of this rank.
  [[nodiscard]] Bytes memory() const { return execution_.memory(); }
  /// Of the model, on all ranks together.
  [[nodiscard]] Bytes weights() const;

 private:
  void run_cached(std::int32_t token, Trace* trace);
  void run_uncached();
  [[nodiscard]] bool leads() const {
    return communicator_ == nullptr || communicator_->rank() == 0;
  }

  const CompiledDecoder& compiled_;
  Communicator* communicator_;
  ShardedExecution execution_;
  std::vector<std::int32_t> sequence_;
  std::vector<std::byte> raw_;  ///< logits of the model's type
  std::vector<float> logits_;
};

}  // namespace trireme::train
