// Least squares of (predicted - measured) / sqrt(measured) with no negative coefficient: errors of short kernels count
// less than relative ones would, errors of long kernels less than absolute ones. There are only five coefficients, so
// every subset of them is solved without the constraint, and the best solution that satisfies it is used. Finally all
// terms are scaled so that the sum of predicted times equals the sum of measured ones.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/median.h"
#include "trireme/kernel_costs.h"

namespace trireme::predict {
namespace {

constexpr std::size_t kTerms = 5;
/// With fewer samples, a kernel gets no row.
constexpr std::size_t kFewest = 3;
using Terms = std::array<double, kTerms>;
using Key = std::pair<std::string, std::string>;  ///< kernel, dtype

double dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

/// The samples of one row.
class Fit {
 public:
  void add(const KernelSample& sample) {
    rows_.push_back({sample.work.factors, sample.time.count});
  }

  [[nodiscard]] std::size_t size() const { return rows_.size(); }

  [[nodiscard]] KernelCost cost(const Key& key) const {
    const Terms best = with_right_sum(solve());
    return {.kernel = key.first,
            .dtype = key.second,
            .call = {best[0]},
            .flop = {best[1]},
            .first = {best[2]},
            .others = {best[3]},
            .results = {best[4]},
            .samples = static_cast<int>(rows_.size()),
            .error = median_error(best)};
  }

 private:
  struct Row {
    Terms factors{};
    double time = 0;
  };

  [[nodiscard]] Terms with_right_sum(Terms terms) const {
    double measured = 0;
    double predicted = 0;
    for (const Row& row : rows_) {
      measured += row.time;
      predicted += dot(row.factors, terms);
    }
    for (double& term : terms) {
      term *= predicted > 0 ? measured / predicted : 1;
    }
    return terms;
  }

  [[nodiscard]] Terms solve() const {
    Terms best{};
    double least = squared_error(best);
    for (unsigned subset = 1; subset < 1U << kTerms; ++subset) {
      const std::optional<Terms> terms = solve(subset);
      if (terms && squared_error(*terms) < least * (1 - 1e-9)) {
        best = *terms;
        least = squared_error(best);
      }
    }
    return best;
  }

  /// The unconstrained solution with these terms only; nothing if it has a negative one or they depend on one another.
  [[nodiscard]] std::optional<Terms> solve(unsigned subset) const {
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < kTerms; ++i) {
      if ((subset >> i & 1U) != 0) {
        used.push_back(i);
      }
    }
    const Terms scale = scales();
    std::array<std::array<double, kTerms + 1>, kTerms> m{};
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        const double a = row.factors[used[i]] / scale[used[i]];
        for (std::size_t j = 0; j < used.size(); ++j) {
          m[i][j] += a * row.factors[used[j]] / scale[used[j]] / row.time;
        }
        m[i][used.size()] += a;
      }
    }
    if (!eliminate(m, used.size())) {
      return std::nullopt;
    }
    Terms terms{};
    for (std::size_t i = 0; i < used.size(); ++i) {
      terms[used[i]] = m[i][used.size()] / scale[used[i]];
    }
    const bool negative = std::ranges::any_of(terms, [](double term) { return term < 0; });
    return negative ? std::nullopt : std::optional(terms);
  }

  /// Gauss-Jordan on the first n rows; false if the matrix is close to singular.
  static bool eliminate(std::array<std::array<double, kTerms + 1>, kTerms>& m, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      if (m[i][i] < 1e-9) {  // the columns are scaled, and the matrix has no negative pivots
        return false;
      }
      for (std::size_t j = 0; j < n; ++j) {
        const double factor = j == i ? 0 : m[j][i] / m[i][i];
        for (std::size_t k = i; k <= n; ++k) {
          m[j][k] -= factor * m[i][k];
        }
      }
      for (std::size_t k = n + 1; k-- > i;) {
        m[i][k] /= m[i][i];
      }
    }
    return true;
  }

  /// The length of each column, or 1 if it is empty.
  [[nodiscard]] Terms scales() const {
    Terms squares{};
    for (const Row& row : rows_) {
      for (std::size_t i = 0; i < kTerms; ++i) {
        squares[i] += row.factors[i] * row.factors[i] / row.time;
      }
    }
    for (double& square : squares) {
      square = square > 0 ? std::sqrt(square) : 1;
    }
    return squares;
  }

  [[nodiscard]] double squared_error(const Terms& terms) const {
    double sum = 0;
    for (const Row& row : rows_) {
      const double error = dot(row.factors, terms) - row.time;
      sum += error * error / row.time;
    }
    return sum;
  }

  [[nodiscard]] double median_error(const Terms& terms) const {
    std::vector<double> errors;
    errors.reserve(rows_.size());
    for (const Row& row : rows_) {
      errors.push_back(std::abs(dot(row.factors, terms) / row.time - 1));
    }
    return median(std::move(errors));
  }

  std::vector<Row> rows_;
};

}  // namespace

std::vector<KernelCost> fit_kernel_costs(std::span<const KernelSample> samples) {
  std::map<Key, Fit> fits;
  for (const KernelSample& sample : samples) {
    if (sample.time.count <= 0) {
      continue;
    }
    fits[{sample.work.kernel, sample.work.dtype}].add(sample);
    if (!sample.work.kernel.starts_with("einsum")) {
      fits[{"*", sample.work.dtype}].add(sample);
    }
  }
  std::vector<KernelCost> costs;
  for (const auto& [key, fit] : fits) {
    if (fit.size() >= kFewest) {
      costs.push_back(fit.cost(key));
    }
  }
  return costs;
}

}  // namespace trireme::predict
