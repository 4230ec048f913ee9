// Batches of tokens and of generated tasks. Callable from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "train/data/tasks.h"
#include "train/data/token_source.h"
#include "trireme/train_data.h"

namespace trireme::train {

/// Batches of token windows; one window is one example.
[[nodiscard]] std::unique_ptr<Batches> make_batches(TokenSource source);
/// Generated examples, never the same one twice. Different seeds give unrelated examples.
[[nodiscard]] std::unique_ptr<Batches> make_batches(WaveTask task, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Batches> make_batches(PatternTask task, std::uint64_t seed);

}  // namespace trireme::train
