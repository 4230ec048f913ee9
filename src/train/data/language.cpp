#include "train/data/language.h"

#include <algorithm>
#include <array>
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

void require_range(bool right, const char* name, double value, const std::string& range) {
  if (!right) {
    throw Error(ErrorKind::Usage, fmt::format("language: {} is {}, not {}", name, value, range));
  }
}

void check(const LanguageOptions& options) {
  const int most = static_cast<int>(kAlphabet.size());
  const std::string up_to_symbols = fmt::format("1 to {}", options.symbols);
  require_range(options.symbols >= 2 && options.symbols <= most, "symbols", options.symbols,
                fmt::format("2 to {}", most));
  require_range(options.groups >= 1 && options.groups <= options.symbols, "groups", options.groups,
                up_to_symbols);
  require_range(options.successors >= 1 && options.successors <= options.symbols, "successors",
                options.successors, up_to_symbols);
  require_range(options.smoothing >= 0.001 && options.smoothing <= 1, "smoothing",
                options.smoothing, "0.001 to 1");
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
std::size_t pick(std::span<const double> weights, double sum, double u) {
  double rest = u * sum;
  std::size_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) {
      last = i;
      if (rest < weights[i]) {
        break;
      }
      rest -= weights[i];
    }
  }
  return last;
}

/// What pick() returns for a row of weights, mostly by a look into a table. The result never falls as `u` grows, so where it
/// is the same at both ends of an interval of `u`, it is the same within.
class Picker {
 public:
  explicit Picker(std::span<const double> weights) : weights_(weights), sum_(sum_of(weights)) {
    for (std::size_t k = 0; k < kIntervals; ++k) {
      const double end = static_cast<double>(k + 1) / kIntervals;
      const std::size_t low = pick(weights_, sum_, static_cast<double>(k) / kIntervals);
      known_.at(k) = low == pick(weights_, sum_, std::nextafter(end, 0)) ? low : kUnknown;
    }
  }
  [[nodiscard]] std::size_t operator()(double u) const {
    const std::size_t known = known_[static_cast<std::size_t>(u * kIntervals)];
    return known == kUnknown ? pick(weights_, sum_, u) : known;
  }

 private:
  static constexpr std::size_t kIntervals = 256;
  static constexpr std::size_t kUnknown = -1;
  std::span<const double> weights_;
  double sum_;
  std::array<std::size_t, kIntervals> known_{};
};

}  // namespace

Language::Language(const LanguageOptions& options)
    : symbols_(options.symbols), groups_(options.groups) {
  check(options);
  next_.resize(groups_ * symbols_ * symbols_);
  for (std::size_t context = 0; context < groups_ * symbols_; ++context) {
    make_row(context, options);
  }
  find_stationary();
}

/// Draws successors without replacement, symbol i with weight 1 / (i+1).
void Language::make_row(std::size_t context, const LanguageOptions& options) {
  std::vector<double> popularity(symbols_);
  for (std::size_t i = 0; i < symbols_; ++i) {
    popularity[i] = 1 / static_cast<double>(i + 1);
  }
  const std::span<double> row(next_.data() + context * symbols_, symbols_);
  const std::uint64_t stream = random_bits(options.seed, context);
  for (int k = 0; k < options.successors; ++k) {
    const std::size_t symbol =
        pick(popularity, sum_of(popularity), random_unit(stream, static_cast<std::uint64_t>(k)));
    row[symbol] = 1.0 / ((k + 1) * (k + 1));
    popularity[symbol] = 0;
  }
  const double sum = sum_of(row);
  for (double& p : row) {
    p = (1 - options.smoothing) * p / sum + options.smoothing / options.symbols;
  }
}

/// The distribution of pairs one symbol later: p'(b,c) = sum over a of p(a,b) P(c | a,b).
std::vector<double> Language::pairs_after(const std::vector<double>& pairs) const {
  const std::size_t n = symbols_;
  std::vector<double> after(n * n, 0.0);
  for (std::size_t group = 0; group < groups_; ++group) {
    for (std::size_t b = 0; b < n; ++b) {
      double weight = 0;
      for (std::size_t a = group; a < n; a += groups_) {
        weight += pairs[a * n + b];
      }
      const std::span<const double> next = row(group * n + b);
      for (std::size_t c = 0; c < n; ++c) {
        after[b * n + c] += weight * next[c];
      }
    }
  }
  return after;
}

/// Power iteration. Every symbol can follow every context, so the stationary distribution is unique and the iteration
/// converges to it.
void Language::find_stationary() {
  constexpr int kMaxSteps = 100'000;
  constexpr double kSettled = 1e-14;
  const std::size_t count = symbols_ * symbols_;
  pairs_.assign(count, 1 / static_cast<double>(count));
  double moved = 1;
  for (int step = 0; step < kMaxSteps && moved > kSettled; ++step) {
    std::vector<double> after = pairs_after(pairs_);
    moved = std::transform_reduce(after.begin(), after.end(), pairs_.begin(), 0.0, std::plus<>(),
                                  [](double x, double y) { return std::abs(x - y); });
    pairs_ = std::move(after);
  }
}

std::size_t Language::context(std::size_t before, std::size_t last) const {
  return before % groups_ * symbols_ + last;
}

std::span<const double> Language::row(std::size_t context) const {
  return std::span(next_).subspan(context * symbols_, symbols_);
}

double Language::probability(int before, int last, int next) const {
  const auto known = [&](int symbol) { return symbol >= 0 && symbol < symbols(); };
  TRIREME_CHECK(known(before) && known(last) && known(next),
                fmt::format("symbols {} {} {} of {}", before, last, next, symbols_));
  return row(context(before, last))[next];
}

double Language::entropy_rate() const {
  double sum = 0;
  for (std::size_t a = 0; a < symbols_; ++a) {
    for (std::size_t b = 0; b < symbols_; ++b) {
      sum += pairs_[a * symbols_ + b] * entropy(row(context(a, b)));
    }
  }
  return sum;
}

double Language::unigram_entropy() const {
  double sum = 0;
  for (std::size_t a = 0; a < symbols_; ++a) {
    const std::span<const double> pairs = std::span(pairs_).subspan(a * symbols_, symbols_);
    sum += surprise(std::accumulate(pairs.begin(), pairs.end(), 0.0));
  }
  return sum;
}

double Language::bigram_entropy() const {
  return entropy(pairs_) - unigram_entropy();  // H(x2 | x1) = H(x1, x2) - H(x1)
}

std::vector<std::int32_t> Language::sample(std::int64_t count, std::uint64_t seed) const {
  std::vector<std::int32_t> out;
  out.reserve(std::max<std::int64_t>(count, 0));
  std::vector<Picker> pickers;  // a sample takes millions of picks
  for (std::size_t i = 0; i < groups_ * symbols_; ++i) {
    pickers.emplace_back(row(i));
  }
  const std::size_t first = pick(pairs_, sum_of(pairs_), random_unit(seed, 0));
  std::size_t before = first / symbols_;
  std::size_t last = first % symbols_;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<std::int32_t>(before));
    const Picker& next_of = pickers[context(before, last)];
    const std::size_t next = next_of(random_unit(seed, static_cast<std::uint64_t>(i) + 1));
    before = last;
    last = next;
  }
  return out;
}

std::string Language::text(std::span<const std::int32_t> tokens) const {
  std::string out;
  out.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= symbols()) {
      throw Error(ErrorKind::Usage, fmt::format("language: symbol {} is out of range; there are {}",
                                                token, symbols_));
    }
    out += kAlphabet[token];
  }
  return out;
}

}  // namespace trireme::train
