// How fast the planner's searches are.
//
//   planner_bench
//
// CPU seconds of one core, the best of several repeats: exhaustive searches of layouts, and exact choices of strategies on
// a chain of 384 ops with residual connections, without and within memory.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "trireme/placement_search.h"
#include "trireme/planner.h"

namespace trireme {
namespace {

/// The least CPU time of some runs.
template <class Run>
double seconds_of(const Run& run) {
  constexpr int kRepeats = 3;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const std::clock_t begin = std::clock();
    run();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

void search(const char* name, const SearchOptions& options) {
  const Cluster cluster = cluster_preset("dgx-h100:2048");
  const TransformerCost cost(architecture("llama3-405b"), {.batch = 2048}, cluster,
                             efficiency_of(cluster));
  PlanSearch found;
  const double seconds = seconds_of([&] { found = search_plans(cost, options); });
  fmt::print("{:<34} {:>10} layouts {:>8.3f} s {:>10.2f} million/s, best {:.3f} s\n", name,
             found.searched, seconds, 1e-6 * static_cast<double>(found.searched) / seconds,
             found.best.front().cost.seconds);
}

StrategyProblem chain_of_ops(int nodes, std::size_t strategies) {
  std::mt19937_64 random(7);
  const auto draw = [&] { return static_cast<double>(random() >> 11) * 0x1p-53 * 10; };
  const auto numbers = [&](std::size_t count) {
    std::vector<double> values(count);
    std::ranges::generate(values, draw);
    return values;
  };
  StrategyProblem problem;
  for (int i = 0; i < nodes; ++i) {
    problem.nodes.push_back({.cost = numbers(strategies), .memory = numbers(strategies)});
    for (const int distance : {1, 3}) {
      if (i >= distance && (distance == 1 || i % 3 == 0)) {
        problem.edges.push_back(
            {.from = i - distance, .to = i, .cost = numbers(strategies * strategies)});
      }
    }
  }
  return problem;
}

void choose() {
  const StrategyProblem problem = chain_of_ops(384, 8);
  StrategyChoice free;
  const double seconds = seconds_of([&] { free = choose_strategies(problem); });
  fmt::print("{:<34} {:>8.1f} ms, cost {:.3f}\n", "384 ops x 8 strategies", 1e3 * seconds,
             free.cost);
  for (const double share : {0.9, 0.7, 0.5}) {
    std::optional<StrategyChoice> choice;
    const double within =
        seconds_of([&] { choice = choose_strategies(problem, share * free.memory); });
    fmt::print("{:<34} {:>8.1f} ms, cost {:.3f}, at most {:.4f} % above the optimum\n",
               fmt::format("the same within {:.0f} % of its memory", 100 * share), 1e3 * within,
               choice->cost, 100 * (choice->cost / choice->bound - 1));
  }
}

int run() {
  SearchOptions options;
  search("405B on 16,384 GPUs, usual", options);
  options.method = SearchMethod::Mcmc;
  options.space.extent = SearchSpace::Extent::Wide;
  search("the same, wide, MCMC", options);
  options.method = SearchMethod::Exhaustive;
  search("the same, wide, exhaustive", options);
  choose();
  return 0;
}

}  // namespace
}  // namespace trireme

int main() {
  return trireme::run();
}
