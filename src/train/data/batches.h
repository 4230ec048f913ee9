// Batches of whatever a model trains on, as bytes: what the step loop sees of data.
//
// All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "train/data/tasks.h"
#include "train/data/token_source.h"

namespace trireme::train {

/// Memory of a batch: the model's input, and its targets. As many bytes as the graph's inputs have.
struct BatchMemory {
  std::span<std::byte> inputs{};
  std::span<std::byte> targets{};
};

/// Examples in an order that only depends on the position, so that a run resumes exactly.
class Batches {
 public:
  Batches() = default;
  virtual ~Batches() = default;
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// The next examples from `at` on, as many as there is memory for.
  virtual void fill(DataPosition at, const BatchMemory& to) const = 0;
  /// The position `examples` further on.
  [[nodiscard]] virtual DataPosition advance(DataPosition at, std::int64_t examples) const = 0;
};

/// Windows of tokens; an example is a window.
[[nodiscard]] std::unique_ptr<Batches> make_batches(TokenSource source);
/// Examples of a task, never the same one twice. Those of different seeds have nothing in common.
[[nodiscard]] std::unique_ptr<Batches> make_batches(WaveTask task, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Batches> make_batches(PatternTask task, std::uint64_t seed);

}  // namespace trireme::train
