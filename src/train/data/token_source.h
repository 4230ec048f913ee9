// Batches of token windows from a long sequence, in a random order that depends only on the seed, the epoch and the
// position, so that every rank computes its part independently and a run resumes exactly. Callable from any thread.
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
  std::int64_t length = 256;       ///< tokens per window
  double validation_fraction = 0;  ///< fraction of the windows, taken from the end; in [0, 1)
  Part part = Part::Training;
  Order order = Order::Shuffled;
  std::uint64_t seed = 0;  ///< of the order
};

/// Splits a sequence into consecutive windows of `length` tokens; each needs one more token, its last target. Tokens
/// left over at the end are not used. With a validation fraction, both parts have at least one window and share no
/// token, as input or target.
class TokenSource {
 public:
  /// Throws Error(Usage) on invalid options, Error(Input) if there are too few tokens for one window (in each part).
  TokenSource(Tokens tokens, const TokenSourceOptions& options);

  /// Number of windows in this part: the length of an epoch.
  [[nodiscard]] std::int64_t windows() const noexcept { return windows_; }
  [[nodiscard]] std::int64_t length() const noexcept { return options_.length; }
  [[nodiscard]] std::int32_t vocabulary() const noexcept { return tokens_.vocabulary(); }

  /// The next `sequences` windows from `at` on, continuing into the next epoch where one ends. Rank r of R gets its
  /// part of a batch of B with batch(advance(at, r * B / R), B / R). Throws Error(Usage) if `at` is not a position of
  /// this source.
  [[nodiscard]] Batch batch(DataPosition at, std::int64_t sequences) const;
  /// The same, into the caller's memory, each [sequences, length]. Throws Error(Usage) if the sizes differ or are not a
  /// multiple of the length.
  void fill(DataPosition at, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;

  /// The position `windows` later. Throws Error(Usage) if `at` is not a position of this source.
  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t windows) const;

  /// Where in the sequence the window at `at` begins.
  [[nodiscard]] std::int64_t first_token(DataPosition at) const;

 private:
  void check(DataPosition at) const;

  Tokens tokens_;
  TokenSourceOptions options_;
  std::int64_t start_ = 0;
  std::int64_t windows_ = 0;
};

}  // namespace trireme::train
