#include "report/comparison_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace trireme::report {
namespace {

using simulate::AlgorithmComparison;
using simulate::ComparisonRow;
using simulate::Crossover;

constexpr int kAlgorithmWidth = 20;
constexpr int kCellWidth = 10;

/// Three digits suffice for a comparison, and keep the table narrow.
std::string short_text(Seconds seconds) {
  const double magnitude =
      seconds.count > 0 ? std::pow(10, std::floor(std::log10(seconds.count)) - 2) : 1;
  return to_text(Seconds{std::round(seconds.count / magnitude) * magnitude});
}

const Choice* find_choice(const ComparisonRow& row, Algorithm algorithm) {
  const auto found = std::ranges::find(row.ranking, algorithm, &Choice::algorithm);
  return found == row.ranking.end() ? nullptr : &*found;
}

/// The algorithms of the table, in the order of the catalog.
std::vector<Algorithm> compared(const AlgorithmComparison& comparison) {
  std::vector<Algorithm> out;
  for (const Algorithm algorithm : algorithms_for(comparison.operation)) {
    if (!comparison.rows.empty() && find_choice(comparison.rows.front(), algorithm) != nullptr) {
      out.push_back(algorithm);
    }
  }
  return out;
}

std::string crossovers_text(const AlgorithmComparison& comparison) {
  std::string out;
  for (const Crossover& crossover : comparison.crossovers) {
    out +=
        fmt::format("  from {} bytes ({}) on: {} instead of {}\n", crossover.bytes.count,
                    to_text(crossover.bytes), to_text(crossover.after), to_text(crossover.before));
  }
  if (out.empty() && !comparison.rows.empty()) {
    return fmt::format("  {} is fastest at every size shown\n",
                       to_text(comparison.rows.front().ranking.front().algorithm));
  }
  return out;
}

}  // namespace

std::string comparison_text(const AlgorithmComparison& comparison, bool color) {
  std::string out =
      fmt::format("{} over {} ranks: predicted time, the fastest of each size marked *\n\n",
                  styled(to_text(comparison.operation), Style::Bold, color), comparison.ranks);
  out += padded("", kAlgorithmWidth);
  for (const ComparisonRow& row : comparison.rows) {
    out += right_aligned(to_text(row.bytes) + " ", kCellWidth);
  }
  out += "\n";
  for (const Algorithm algorithm : compared(comparison)) {
    out += padded(fmt::format("  {}", to_text(algorithm)), kAlgorithmWidth);
    for (const ComparisonRow& row : comparison.rows) {
      const bool best = row.ranking.front().algorithm == algorithm;
      const std::string cell = right_aligned(
          short_text(find_choice(row, algorithm)->predicted) + (best ? "*" : " "), kCellWidth);
      out += best ? styled(cell, Style::Good, color) : cell;
    }
    out += "\n";
  }
  std::string bounds = padded("  lower bound", kAlgorithmWidth);
  for (const ComparisonRow& row : comparison.rows) {
    const Seconds bound =
        lower_bound(comparison.operation, comparison.ranks, {row.bytes.count}, comparison.costs);
    bounds += right_aligned(short_text(bound) + " ", kCellWidth);
  }
  return out + styled(bounds, Style::Dim, color) + "\n\n" + crossovers_text(comparison);
}

}  // namespace trireme::report
