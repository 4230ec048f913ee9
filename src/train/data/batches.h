// Batches of tokens and of generated tasks.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "train/data/tasks.h"
#include "train/data/token_source.h"
#include "trireme/train_data.h"

namespace trireme::train {

/// Windows of tokens; an example is a window.
[[nodiscard]] std::unique_ptr<Batches> make_batches(TokenSource source);
/// Examples of a task, never the same one twice. Those of different seeds have nothing in common.
[[nodiscard]] std::unique_ptr<Batches> make_batches(WaveTask task, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Batches> make_batches(PatternTask task, std::uint64_t seed);

}  // namespace trireme::train
