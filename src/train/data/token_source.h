// Batches of tokens to train on: windows of a long sequence, in a random order that only depends on the
// seed, the epoch and the place, so that any rank computes its part alone and a run resumes exactly.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/data/tokens.h"
#include "trireme/train_data.h"

namespace trireme::train {

/// Row-major [sequences, length]: targets[b][t] is the token that follows tokens[b][t].
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

enum class Part { Training, Validation };
enum class Order { Shuffled, Sequential };

struct TokenSourceOptions {
  std::int64_t length = 256;       ///< tokens in a window
  double validation_fraction = 0;  ///< of the windows, taken from the end; in [0, 1)
  Part part = Part::Training;
  Order order = Order::Shuffled;
  std::uint64_t seed = 0;  ///< of the order
};

/// Cuts a sequence into windows of `length` tokens, one after the other; each needs one token more, its
/// last target. What is left at the end is not used. With a validation fraction, both parts have at least
/// one window and no token, as input or target, is in both.
class TokenSource {
 public:
  /// Throws Error(Usage) on options that cannot be, Error(Input) if the tokens are too few for a window
  /// (for one in each part).
  TokenSource(Tokens tokens, const TokenSourceOptions& options);

  /// Windows of this part: the length of an epoch.
  [[nodiscard]] std::int64_t windows() const noexcept { return windows_; }
  [[nodiscard]] std::int64_t length() const noexcept { return options_.length; }
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return tokens_.vocabulary(); }

  /// The next `sequences` windows from `at` on; where the epoch ends, the next begins. Rank r of R takes
  /// its part of a batch of B with batch(advance(at, r * B / R), B / R). Throws Error(Usage) if `at` is no
  /// position of this source.
  [[nodiscard]] Batch batch(DataPosition at, std::int64_t sequences) const;
  /// The same into memory of the caller, each [sequences, length]. Throws Error(Usage) if the sizes
  /// differ or are no multiple of the length.
  void fill(DataPosition at, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;

  /// The position `windows` further on. Throws Error(Usage) if `at` is no position of this source.
  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t windows) const;

  /// Where in the sequence the window at a position begins.
  [[nodiscard]] std::int64_t first_token(DataPosition at) const;

 private:
  void check(DataPosition at) const;

  Tokens tokens_;
  TokenSourceOptions options_;
  std::int64_t start_ = 0;
  std::int64_t windows_ = 0;
};

}  // namespace trireme::train
