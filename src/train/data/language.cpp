#include "train/data/language.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "train/data/random.h"
#include "trireme/error.h"

namespace trireme::train {
namespace {

/// Ordered roughly by frequency in English, so that samples look like text.
constexpr std::string_view kAlphabet =
    " etaoinshrdlcumwfgypbvkxjqz.,\nETAOINSHRDLCUMWFGYPBVKXJQZ'-!?;:()";

void require(bool right, const char* name, double value, const std::string& range) {
  if (!right) {
    throw Error(ErrorKind::Usage, fmt::format("language: {} is {}, not {}", name, value, range));
  }
}

void check(const LanguageOptions& options) {
  const int most = static_cast<int>(kAlphabet.size());
  const std::string up_to_symbols = fmt::format("1 to {}", options.symbols);
  require(options.symbols >= 2 && options.symbols <= most, "symbols", options.symbols,
          fmt::format("2 to {}", most));
  require(options.groups >= 1 && options.groups <= options.symbols, "groups", options.groups,
          up_to_symbols);
  require(options.successors >= 1 && options.successors <= options.symbols, "successors",
          options.successors, up_to_symbols);
  require(options.smoothing >= 0.001 && options.smoothing <= 1, "smoothing", options.smoothing,
          "0.001 to 1");
}

/// -p ln p, which is 0 for p = 0.
double surprise(double p) {
  return p > 0 ? -p * std::log(p) : 0;
}

double entropy(std::span<const double> distribution) {
  return std::accumulate(distribution.begin(), distribution.end(), 0.0,
                         [](double sum, double p) { return sum + surprise(p); });
}

double sum_of(std::span<const double> weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

/// The index at which the cumulative weights reach the fraction `u` in [0, 1) of their sum.
int pick(std::span<const double> weights, double sum, double u) {
  double rest = u * sum;
  int last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) {
      last = static_cast<int>(i);
      if (rest < weights[i]) {
        break;
      }
      rest -= weights[i];
    }
  }
  return last;
}

}  // namespace

Language::Language(const LanguageOptions& options)
    : symbols_(options.symbols), groups_(options.groups) {
  check(options);
  const auto n = static_cast<std::size_t>(symbols_);
  next_.resize(static_cast<std::size_t>(groups_) * n * n);
  for (int group = 0; group < groups_; ++group) {
    for (int last = 0; last < symbols_; ++last) {
      make_row(group, last, options);
    }
  }
  find_stationary();
}

/// Draws successors without replacement, symbol i with weight 1 / (i+1).
void Language::make_row(int group, int last, const LanguageOptions& options) {
  const auto n = static_cast<std::size_t>(symbols_);
  const std::size_t context = static_cast<std::size_t>(group) * n + static_cast<std::size_t>(last);
  std::vector<double> popularity(n);
  for (std::size_t i = 0; i < n; ++i) {
    popularity[i] = 1 / static_cast<double>(i + 1);
  }
  const std::span<double> row(next_.data() + context * n, n);
  const std::uint64_t stream = random_bits(options.seed, context);
  for (int k = 0; k < options.successors; ++k) {
    const auto symbol = static_cast<std::size_t>(
        pick(popularity, sum_of(popularity), random_unit(stream, static_cast<std::uint64_t>(k))));
    row[symbol] = 1.0 / ((k + 1) * (k + 1));
    popularity[symbol] = 0;
  }
  const double sum = sum_of(row);
  for (double& p : row) {
    p = (1 - options.smoothing) * p / sum + options.smoothing / symbols_;
  }
}

/// The distribution of pairs one symbol later: p'(b,c) = sum over a of p(a,b) P(c | a,b).
std::vector<double> Language::pairs_after(const std::vector<double>& pairs) const {
  const auto n = static_cast<std::size_t>(symbols_);
  const auto groups = static_cast<std::size_t>(groups_);
  std::vector<double> after(n * n, 0.0);
  for (std::size_t context = 0; context < groups * n; ++context) {
    const std::size_t b = context % n;
    double weight = 0;
    for (std::size_t a = context / n; a < n; a += groups) {
      weight += pairs[a * n + b];
    }
    for (std::size_t c = 0; c < n; ++c) {
      after[b * n + c] += weight * next_[context * n + c];
    }
  }
  return after;
}

/// Power iteration. Every symbol can follow every context, so the stationary distribution is unique and the iteration
/// converges to it.
void Language::find_stationary() {
  constexpr int kMaxSteps = 100'000;
  constexpr double kSettled = 1e-14;
  const auto count = static_cast<std::size_t>(symbols_) * static_cast<std::size_t>(symbols_);
  pairs_.assign(count, 1 / static_cast<double>(count));
  double moved = 1;
  for (int step = 0; step < kMaxSteps && moved > kSettled; ++step) {
    std::vector<double> after = pairs_after(pairs_);
    moved = std::transform_reduce(after.begin(), after.end(), pairs_.begin(), 0.0, std::plus<>(),
                                  [](double x, double y) { return std::abs(x - y); });
    pairs_ = std::move(after);
  }
}

std::span<const double> Language::row(int before, int last) const {
  const auto n = static_cast<std::size_t>(symbols_);
  const auto group = static_cast<std::size_t>(before % groups_);
  return std::span(next_).subspan((group * n + static_cast<std::size_t>(last)) * n, n);
}

double Language::probability(int before, int last, int next) const {
  const auto known = [&](int symbol) { return symbol >= 0 && symbol < symbols_; };
  TRIREME_CHECK(known(before) && known(last) && known(next),
                fmt::format("symbols {} {} {} of {}", before, last, next, symbols_));
  return row(before, last)[static_cast<std::size_t>(next)];
}

double Language::entropy_rate() const {
  const auto n = static_cast<std::size_t>(symbols_);
  double sum = 0;
  for (int a = 0; a < symbols_; ++a) {
    for (int b = 0; b < symbols_; ++b) {
      sum += pairs_[static_cast<std::size_t>(a) * n + static_cast<std::size_t>(b)] *
             entropy(row(a, b));
    }
  }
  return sum;
}

double Language::unigram_entropy() const {
  const auto n = static_cast<std::size_t>(symbols_);
  double sum = 0;
  for (std::size_t a = 0; a < n; ++a) {
    const std::span<const double> pairs = std::span(pairs_).subspan(a * n, n);
    sum += surprise(std::accumulate(pairs.begin(), pairs.end(), 0.0));
  }
  return sum;
}

double Language::bigram_entropy() const {
  return entropy(pairs_) - unigram_entropy();  // H(x2 | x1) = H(x1, x2) - H(x1)
}

std::vector<std::int32_t> Language::sample(std::int64_t count, std::uint64_t seed) const {
  std::vector<std::int32_t> out;
  out.reserve(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  // A sample takes millions of picks, and most of the time of each would go into the sum of its row.
  std::vector<double> sums;
  for (int group = 0; group < groups_; ++group) {
    for (int symbol = 0; symbol < symbols_; ++symbol) {
      sums.push_back(sum_of(row(group, symbol)));
    }
  }
  const int first = pick(pairs_, sum_of(pairs_), random_unit(seed, 0));
  int before = first / symbols_;
  int last = first % symbols_;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(before);
    const double sum =
        sums[static_cast<std::size_t>(before % groups_) * static_cast<std::size_t>(symbols_) +
             static_cast<std::size_t>(last)];
    const int next =
        pick(row(before, last), sum, random_unit(seed, static_cast<std::uint64_t>(i) + 1));
    before = last;
    last = next;
  }
  return out;
}

std::string Language::text(std::span<const std::int32_t> tokens) const {
  std::string out;
  out.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= symbols_) {
      throw Error(ErrorKind::Usage, fmt::format("language: symbol {} is out of range; there are {}",
                                                token, symbols_));
    }
    out += kAlphabet[static_cast<std::size_t>(token)];
  }
  return out;
}

}  // namespace trireme::train
