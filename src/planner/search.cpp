#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "base/enum_names.h"
#include "base/indexed_vector.h"
#include "planner/advice.h"
#include "planner/exhaustive.h"
#include "planner/mixed_search.h"
#include "planner/random_walk.h"
#include "trireme/error.h"
#include "trireme/planner.h"

namespace trireme {
namespace planner {
namespace {

/// MFU counts the peak of all devices, also where a layout waits for the weakest: then less of the step is useful, and the
/// rest is waiting.
void count_all_peaks(const Cluster& cluster, const std::string& dtype, PlanSearch& search) {
  double peak = 0;
  for (const NodeKind& kind : cluster.kinds) {
    peak += kind.nodes * cluster.devices_per_node * kind.device.peak(dtype)->count;
  }
  for (RankedLayout& found : search.best) {
    StepCost& step = found.cost;
    step.peak = peak;
    double& useful = step.time[position_of(TimePart::Useful)];
    const double waiting = std::max(0.0, useful - step.model_flops / peak);
    step.time[position_of(TimePart::Uneven)] = waiting;
    useful -= waiting;
  }
}

PlanSearch run_search(const TransformerCost& cost, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Ranking ranking(cost, options);
  const LayoutSpace space(cost, options.space);
  if (options.method == SearchMethod::Exhaustive) {
    try_all(cost, space, ranking);
  } else {
    walk_randomly(cost, space, options.mcmc, ranking);
  }
  if (cost.cluster().is_mixed()) {
    try_unequal_stages(cost, options, ranking);
  }
  PlanSearch result = ranking.take();
  if (cost.cluster().is_mixed()) {
    count_all_peaks(cost.cluster(), cost.workload().dtype, result);
  }
  explain_losses(result);
  result.method = options.method;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace
}  // namespace planner

std::string_view to_text(SearchSpace::Extent extent) {
  static constexpr auto kNames = enum_names<SearchSpace::Extent>("usual", "wide");
  return kNames[extent];
}

std::string_view to_text(SearchMethod method) {
  return method == SearchMethod::Exhaustive ? "exhaustive" : "mcmc";
}

std::vector<std::string> problems(const SearchOptions& options) {
  std::vector<std::string> found;
  const auto check = [&](bool holds, std::string problem) {
    if (!holds) {
      found.push_back(std::move(problem));
    }
  };
  check(options.keep >= 1, fmt::format("{} plans to keep; use 1 or more", options.keep));
  check(options.mcmc.moves >= 1, fmt::format("{} moves; use 1 or more", options.mcmc.moves));
  check(std::isfinite(options.mcmc.temperature) && options.mcmc.temperature > 0,
        fmt::format("the temperature is {}; it must be above 0", options.mcmc.temperature));
  for (const Bytes bucket : options.space.buckets) {
    check(bucket.count >= 1024 && bucket.count % 1024 == 0,
          fmt::format("a bucket of {} bytes; use a multiple of 1 KiB", bucket.count));
  }
  return found;
}

PlanSearch search_plans(const TransformerCost& cost, const SearchOptions& options) {
  require_valid(options);
  PlanSearch result = planner::run_search(cost, options);
  if (result.searched == 0) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("no layout of {} devices fits a model of {} blocks and {} heads, a batch "
                    "of {} sequences and the given axes: the axes multiply to {}, tensor "
                    "divides the heads, data times --microbatch the batch",
                    cost.cluster().devices(), cost.model().model.layers, cost.model().model.heads,
                    cost.workload().batch, cost.cluster().devices()));
  }
  if (result.best.empty()) {
    result.largest_tensor = planner::describe_largest_tensor(cost, *result.smallest);
    result.advice = planner::advise(cost, options, *result.smallest);
  }
  return result;
}

}  // namespace trireme
