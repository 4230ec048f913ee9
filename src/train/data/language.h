// A made-up language whose entropy is known: what a model trains on if it is given no data, and the
// yardstick for its loss.
//
// All functions may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::train {

struct LanguageOptions {
  int symbols = 64;         ///< 2 to 64
  int groups = 8;           ///< 1 to symbols: how much of the symbol before the last matters
  int successors = 6;       ///< 1 to symbols: how many usually follow a context
  double smoothing = 0.02;  ///< how often any symbol may follow; 0.001 to 1
  std::uint64_t seed = 1;
};

/// A Markov source of order 2. After the symbols a, b comes c with a probability that depends on b and on
/// the group of a: the k-th of a few successors of that context has a share of 1 / (k+1)^2, and with the
/// probability `smoothing` it is any symbol. Entropies are in nats per symbol (a mean cross-entropy loss)
/// of the stationary process, from its exact distribution, not from a sample:
///
///   ln(symbols) >= unigram_entropy() >= bigram_entropy() >= entropy_rate()
///
/// The last is the least loss that any model can reach on average; the others are what a model gets that
/// knows only how often symbols are, or only the last one.
class Language {
 public:
  /// Throws Error(Usage) on options out of range.
  explicit Language(const LanguageOptions& options = {});

  [[nodiscard]] int symbols() const noexcept { return symbols_; }
  /// Of `next` after the symbols `before`, `last`.
  [[nodiscard]] double probability(int before, int last, int next) const;

  [[nodiscard]] double entropy_rate() const;     ///< H(x3 | x1, x2)
  [[nodiscard]] double bigram_entropy() const;   ///< H(x2 | x1)
  [[nodiscard]] double unigram_entropy() const;  ///< H(x1)

  /// `count` symbols of the stationary process. The same seed gives the same symbols, and a longer sample
  /// begins with the shorter one.
  [[nodiscard]] std::vector<std::int32_t> sample(std::int64_t count, std::uint64_t seed) const;

  /// As printable text, a character (or line break) a symbol. Throws Error(Usage) on what is no symbol.
  [[nodiscard]] std::string text(std::span<const std::int32_t> tokens) const;

 private:
  [[nodiscard]] std::span<const double> row(int before, int last) const;
  void make_row(int group, int last, const LanguageOptions& options);
  [[nodiscard]] std::vector<double> pairs_after(const std::vector<double>& pairs) const;
  void find_stationary();

  int symbols_;
  int groups_;
  std::vector<double> next_;   ///< [groups, symbols, symbols]: group of the one before, last, next
  std::vector<double> pairs_;  ///< [symbols, symbols]: how often a pair is, in the long run
};

}  // namespace trireme::train
