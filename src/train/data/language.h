// A synthetic language with known entropy: the default training data, and the yardstick for a model's loss. Callable
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::train {

struct LanguageOptions {
  int symbols = 64;         ///< 2 to 64
  int groups = 8;           ///< 1 to symbols: how much of the second-to-last symbol matters
  int successors = 6;       ///< 1 to symbols: how many symbols usually follow a context
  double smoothing = 0.02;  ///< probability that any symbol may follow; 0.001 to 1
  std::uint64_t seed = 1;
};

/// A Markov source of order 2. The symbol c that follows a, b depends on b and on the group of a: the k-th of the
/// context's few successors has weight 1 / (k+1)^2, and with probability `smoothing` c is any symbol. Entropies are in
/// nats per symbol (a mean cross-entropy loss) of the stationary process, computed exactly, not from a sample:
///
///   ln(symbols) >= unigram_entropy() >= bigram_entropy() >= entropy_rate()
///
/// The last is the lowest average loss that any model can reach; the others are the losses of a model that knows only
/// the symbol frequencies, or only the last symbol.
class Language {
 public:
  /// Throws Error(Usage) on options out of range.
  explicit Language(const LanguageOptions& options = {});

  [[nodiscard]] int symbols() const noexcept { return static_cast<int>(symbols_); }
  /// The probability of `next` after the symbols `before`, `last`.
  [[nodiscard]] double probability(int before, int last, int next) const;

  [[nodiscard]] double entropy_rate() const;     ///< H(x3 | x1, x2)
  [[nodiscard]] double bigram_entropy() const;   ///< H(x2 | x1)
  [[nodiscard]] double unigram_entropy() const;  ///< H(x1)

  /// `count` symbols of the stationary process. The same seed gives the same symbols; a shorter sample is a prefix of a
  /// longer one.
  [[nodiscard]] std::vector<std::int32_t> sample(std::int64_t count, std::uint64_t seed) const;

  /// As printable text, one character (or line break) per symbol. Throws Error(Usage) on an invalid symbol.
  [[nodiscard]] std::string text(std::span<const std::int32_t> tokens) const;

 private:
  /// The index of a context: the group of the symbol before the last, and the last symbol.
  [[nodiscard]] std::size_t context(std::size_t before, std::size_t last) const;
  /// The distribution of the next symbol.
  [[nodiscard]] std::span<const double> row(std::size_t context) const;
  void make_row(std::size_t context, const LanguageOptions& options);
  [[nodiscard]] std::vector<double> pairs_after(const std::vector<double>& pairs) const;
  void find_stationary();

  std::size_t symbols_;
  std::size_t groups_;
  std::vector<double> next_;   ///< [groups, symbols, symbols]: group before the last, last, next
  std::vector<double> pairs_;  ///< [symbols, symbols]: stationary probability of each pair
};

}  // namespace trireme::train
