#include "trireme/algorithm_comparison.h"

#include <cmath>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::simulate {
namespace {

Algorithm winner(Selector& selector, Selector::Query query, std::int64_t bytes) {
  query.bytes = {bytes};
  return selector.rank(query).front().algorithm;
}

/// All changes of the winner in (low, high], by bisection: if the ends differ there is at least
/// one.
void find_crossovers(Selector& selector, const Selector::Query& query, std::int64_t low,
                     std::int64_t high, std::vector<Crossover>& crossovers) {
  const Algorithm before = winner(selector, query, low);
  const Algorithm after = winner(selector, query, high);
  if (before == after) {
    return;
  }
  if (high - low == 1) {
    crossovers.push_back({{high}, before, after});
    return;
  }
  const std::int64_t middle = low + (high - low) / 2;
  find_crossovers(selector, query, low, middle, crossovers);
  find_crossovers(selector, query, middle, high, crossovers);
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

SizeRange parse_size_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || text.find(':', colon + 1) != std::string::npos) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("invalid range of sizes '{}': expected FIRST:LAST, such as 8:1GiB", text));
  }
  const Bytes first = parse_bytes(text.substr(0, colon));
  const Bytes last = parse_bytes(text.substr(colon + 1));
  if (first.count < 1 || last < first) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("invalid range of sizes '{}': expected ascending sizes of at least 1 byte",
                    text));
  }
  return {first, last};
}

AlgorithmComparison compare_algorithms(Selector& selector, const Selector::Query& query,
                                       const std::vector<Bytes>& sizes) {
  AlgorithmComparison comparison{query.operation,  query.ranks, query.root,
                                 selector.costs(), {},          {}};
  for (const Bytes bytes : sizes) {
    Selector::Query at = query;
    at.bytes = bytes;
    comparison.rows.push_back({bytes, selector.rank(at)});
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    find_crossovers(selector, query, sizes[i - 1].count, sizes[i].count, comparison.crossovers);
  }
  return comparison;
}

}  // namespace trireme::simulate
