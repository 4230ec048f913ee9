#include "train/generate/decoder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "tensor/half.h"
#include "train/generate/inference_ranks.h"
#include "trireme/decode_model.h"

namespace trireme::train {
namespace {

/// The graph of a forward pass over all positions, as in training, except that experts drop no tokens.
Model make_uncached_model(ModelConfig config, std::int64_t length) {
  config.capacity_factor = 0;
  config.dropout = 0;
  config.noisy_router = false;
  return make_model(config, {1, length});
}

/// Converts to f32 from any model type.
void widen(DType dtype, std::span<const std::byte> from, std::span<float> to) {
  if (is_half(dtype)) {
    widen_halves(dtype, from, std::as_writable_bytes(to).data());
    return;
  }
  if (dtype == DType::F32) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    double wide = 0;
    std::memcpy(&wide, from.data() + i * sizeof(double), sizeof(double));
    to[i] = static_cast<float>(wide);
  }
}

}  // namespace

CompiledDecoder compile_decoder(const DecoderOptions& options) {
  Model model = make_decode_model(options.config,
                                  {.sequences = 1, .tokens = 1, .capacity = options.capacity});
  if (options.cache == KeyValueCache::Unused) {
    model = make_uncached_model(options.config, options.capacity);
  }
  return {.options = options,
          .parameters = std::move(model.parameters),
          .compiled = compile_inference(std::move(model.graph), options.plan)};
}

Decoder::Decoder(const CompiledDecoder& compiled, const ModelSource& source, Device& device,
                 Communicator* communicator)
    : compiled_(compiled),
      communicator_(communicator),
      execution_(compiled.compiled, device, communicator) {
  load_parameters(source, compiled.parameters, execution_);
  const std::int64_t vocabulary = compiled.options.config.vocabulary;
  logits_.resize(leads() ? vocabulary : 0);
}

Bytes Decoder::weights() const {
  Bytes sum{};
  for (const ModelParameter& parameter : compiled_.parameters) {
    sum.count += size_of(parameter.type).count;
  }
  return sum;
}

void Decoder::append(std::int32_t token, Trace* trace) {
  TRIREME_CHECK(std::ssize(sequence_) < compiled_.options.capacity,
                fmt::format("a sequence of more than {} tokens", compiled_.options.capacity));
  if (compiled_.options.cache == KeyValueCache::Used) {
    run_cached(token, trace);
  }
  sequence_.push_back(token);
}

void Decoder::run_cached(std::int32_t token, Trace* trace) {
  const auto position = static_cast<std::int32_t>(sequence_.size());
  const std::int32_t last = 0;
  execution_.write("tokens", scalar_bytes(token));
  execution_.write("positions", scalar_bytes(position));
  execution_.write("last", scalar_bytes(last));
  execution_.run(trace);
}

void Decoder::run_uncached() {
  std::vector<std::int32_t> window = sequence_;
  window.resize(compiled_.options.capacity);
  execution_.write("tokens", std::as_bytes(std::span(window)));
  execution_.run();
}

std::span<const float> Decoder::logits() {
  const bool cached = compiled_.options.cache == KeyValueCache::Used;
  if (!cached) {
    run_uncached();
  }
  const ModelConfig& config = compiled_.options.config;
  const std::size_t rows = cached ? 1 : compiled_.options.capacity;
  const std::size_t row_bytes = config.vocabulary * size_of(config.dtype).count;
  raw_.resize(leads() ? rows * row_bytes : 0);
  execution_.read("logits", raw_);
  if (leads()) {
    const std::size_t row = cached ? 0 : sequence_.size() - 1;
    widen(config.dtype, std::span(raw_).subspan(row * row_bytes, row_bytes), logits_);
  }
  return logits_;
}

}  // namespace trireme::train
