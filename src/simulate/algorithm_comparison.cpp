#include "trireme/algorithm_comparison.h"

#include <cmath>

namespace trireme::simulate {
namespace {

Algorithm winner(Selector& selector, Selector::Query query, std::int64_t bytes) {
  query.bytes = {bytes};
  return selector.rank(query).front().algorithm;
}

/// All changes of the winner in (low, high], by bisection: if the ends differ there is at least
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

}  // namespace trireme::simulate
