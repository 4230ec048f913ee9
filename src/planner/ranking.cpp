#include "planner/ranking.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme::planner {
namespace {

constexpr double kUsableMemory = 0.92;  // the rest: the driver, libraries, fragmentation

bool same_mesh(const ParallelLayout& a, const ParallelLayout& b) {
  return a.data == b.data && a.tensor == b.tensor && a.pipe == b.pipe && a.context == b.context &&
         a.expert == b.expert;
}

/// The parts that grew most, in percent of the first one's step time.
std::string explain(const StepCost& cost, const StepCost& first) {
  std::vector<std::pair<double, TimePart>> growth;
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    growth.emplace_back((cost.part(part) - first.part(part)) / first.seconds, part);
  }
  std::ranges::sort(growth, std::greater{}, [](const auto& g) { return g.first; });
  std::string text;
  for (std::size_t i = 0; i < 2 && (i == 0 || growth[i].first > 0.001); ++i) {
    const double percent = 100 * growth[i].first;
    text += percent < 0.05 ? "about as fast"
                           : fmt::format("{}{} +{:.1f} %", text.empty() ? "" : ", ",
                                         to_text(growth[i].second), percent);
  }
  return text;
}

}  // namespace

Ranking::Ranking(const TransformerCost& cost, const SearchOptions& options) : keep_(options.keep) {
  const std::optional<Bytes> memory = cost.cluster().device.memory;
  if (!options.memory_bytes && !memory) {
    throw Error(ErrorKind::Usage, fmt::format("the memory of {} is not known; give --memory-limit",
                                              cost.cluster().device.name));
  }
  result_.memory_limit = options.memory_bytes ? *options.memory_bytes
                                              : kUsableMemory * static_cast<double>(memory->count);
}

void Ranking::add_too_large(const ParallelLayout& layout, const StepCost& cost) {
  ++result_.too_large;
  if (!result_.smallest || cost.memory_bytes() < result_.smallest->cost.memory_bytes()) {
    result_.smallest = RankedLayout{layout, cost, {}, {}};
  }
}

void Ranking::add_fitting(RankedLayout layout) {
  ++result_.searched;
  if (layout.cost.seconds < worst_) {
    insert(std::move(layout));
  }
}

/// Keeps the fastest layout of each mesh. Ties keep the first: the simpler one.
void Ranking::insert(RankedLayout found) {
  auto& best = result_.best;
  const auto same = std::ranges::find_if(
      best, [&](const RankedLayout& r) { return same_mesh(r.layout, found.layout); });
  if (same != best.end()) {
    if (same->cost.seconds <= found.cost.seconds) {
      return;
    }
    best.erase(same);
  }
  const auto place = std::ranges::upper_bound(best, found.cost.seconds, {},
                                              [](const RankedLayout& r) { return r.cost.seconds; });
  best.insert(place, std::move(found));
  if (best.size() > keep_) {
    best.pop_back();
  }
  if (best.size() == keep_) {
    worst_ = best.back().cost.seconds;
  }
}

void explain_losses(PlanSearch& search) {
  for (std::size_t i = 1; i < search.best.size(); ++i) {
    search.best[i].why = explain(search.best[i].cost, search.best.front().cost);
  }
}

PlanSearch Ranking::take() {
  if (!result_.best.empty()) {
    result_.smallest.reset();
  }
  return std::move(result_);
}

}  // namespace trireme::planner
