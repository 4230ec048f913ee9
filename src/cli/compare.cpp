#include "cli/compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "cli/terminal.h"

namespace trireme::cli {
namespace {

constexpr int kNameWidth = 20;
constexpr int kCellWidth = 10;

/// Three digits are enough to compare, and keep the table narrow.
std::string short_text(Seconds seconds) {
  const double magnitude =
      seconds.count > 0 ? std::pow(10, std::floor(std::log10(seconds.count)) - 2) : 1;
  return to_text(Seconds{std::round(seconds.count / magnitude) * magnitude});
}

Algorithm winner(Selector& selector, Selector::Query query, std::int64_t bytes) {
  query.bytes = {bytes};
  return selector.rank(query).front().algorithm;
}

/// All changes of the winner in (low, high], by halving: where the ends differ there is at least
/// one.
void find_flips(Selector& selector, const Selector::Query& query, std::int64_t low,
                std::int64_t high, std::vector<Flip>& flips) {
  const Algorithm before = winner(selector, query, low);
  const Algorithm after = winner(selector, query, high);
  if (before == after) {
    return;
  }
  if (high - low == 1) {
    flips.push_back({{high}, before, after});
    return;
  }
  const std::int64_t middle = low + (high - low) / 2;
  find_flips(selector, query, low, middle, flips);
  find_flips(selector, query, middle, high, flips);
}

const Choice* find_choice(const ComparisonRow& row, Algorithm algorithm) {
  const auto found = std::ranges::find(row.ranking, algorithm, &Choice::algorithm);
  return found == row.ranking.end() ? nullptr : &*found;
}

/// The algorithms of the table, in the order of the catalogue.
std::vector<Algorithm> compared(const Comparison& comparison) {
  std::vector<Algorithm> out;
  for (const Algorithm algorithm : algorithms_for(comparison.operation)) {
    if (!comparison.rows.empty() && find_choice(comparison.rows.front(), algorithm) != nullptr) {
      out.push_back(algorithm);
    }
  }
  return out;
}

std::string flips_text(const Comparison& comparison) {
  std::string out;
  for (const Flip& flip : comparison.flips) {
    out += fmt::format("  from {} bytes ({}) on: {} instead of {}\n", flip.bytes.count,
                       to_text(flip.bytes), name(flip.after), name(flip.before));
  }
  if (out.empty() && !comparison.rows.empty()) {
    return fmt::format("  {} is fastest at every size shown\n",
                       name(comparison.rows.front().ranking.front().algorithm));
  }
  return out;
}

}  // namespace

std::vector<Bytes> size_range(Bytes first, Bytes last, double factor) {
  std::vector<Bytes> sizes;
  auto size = static_cast<double>(first.count);
  while (size < static_cast<double>(last.count)) {
    sizes.push_back({static_cast<std::int64_t>(std::llround(size))});
    size *= factor;
  }
  sizes.push_back(last);
  return sizes;
}

Comparison compare(Selector& selector, const Selector::Query& query,
                   const std::vector<Bytes>& sizes) {
  Comparison comparison{query.operation, query.ranks, query.root, selector.costs(), {}, {}};
  for (const Bytes bytes : sizes) {
    Selector::Query at = query;
    at.bytes = bytes;
    comparison.rows.push_back({bytes, selector.rank(at)});
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    find_flips(selector, query, sizes[i - 1].count, sizes[i].count, comparison.flips);
  }
  return comparison;
}

std::string comparison_table(const Comparison& comparison, bool colour) {
  std::string out =
      fmt::format("{} over {} ranks: predicted time, the fastest of each size marked *\n\n",
                  styled(name(comparison.operation), Style::Bold, colour), comparison.ranks);
  out += padded("", kNameWidth);
  for (const ComparisonRow& row : comparison.rows) {
    out += right_aligned(to_text(row.bytes) + " ", kCellWidth);
  }
  out += "\n";
  for (const Algorithm algorithm : compared(comparison)) {
    out += padded(fmt::format("  {}", name(algorithm)), kNameWidth);
    for (const ComparisonRow& row : comparison.rows) {
      const bool best = row.ranking.front().algorithm == algorithm;
      const std::string cell = right_aligned(
          short_text(find_choice(row, algorithm)->predicted) + (best ? "*" : " "), kCellWidth);
      out += best ? styled(cell, Style::Good, colour) : cell;
    }
    out += "\n";
  }
  std::string bounds = padded("  lower bound", kNameWidth);
  for (const ComparisonRow& row : comparison.rows) {
    const Seconds bound =
        lower_bound(comparison.operation, comparison.ranks, {row.bytes.count}, comparison.costs);
    bounds += right_aligned(short_text(bound) + " ", kCellWidth);
  }
  return out + styled(bounds, Style::Dim, colour) + "\n\n" + flips_text(comparison);
}

std::string comparison_json(const Comparison& comparison) {
  Json json{{"operation", name(comparison.operation)}, {"ranks", comparison.ranks}};
  json["root"] = has_root(comparison.operation) ? Json(comparison.root) : Json(nullptr);
  json["rows"] = Json::array();
  for (const ComparisonRow& row : comparison.rows) {
    Json seconds = Json::object();
    for (const Choice& choice : row.ranking) {
      seconds[std::string(name(choice.algorithm))] = choice.predicted.count;
    }
    json["rows"].push_back(
        {{"bytes", row.bytes.count},
         {"best", name(row.ranking.front().algorithm)},
         {"lower_bound_seconds",
          lower_bound(comparison.operation, comparison.ranks, {row.bytes.count}, comparison.costs)
              .count},
         {"seconds", seconds}});
  }
  json["crossovers"] = Json::array();
  for (const Flip& flip : comparison.flips) {
    json["crossovers"].push_back(
        {{"bytes", flip.bytes.count}, {"from", name(flip.before)}, {"to", name(flip.after)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::cli
