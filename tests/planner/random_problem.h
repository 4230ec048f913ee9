// Random choices of strategies.
#pragma once

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "trireme/placement_search.h"

namespace trireme {

/// A chain of nodes, and further edges with this probability.
inline StrategyProblem random_problem(std::mt19937_64& random, int nodes, int strategies,
                                      double density) {
  std::uniform_real_distribution<double> cost(0, 10);
  StrategyProblem problem;
  for (int i = 0; i < nodes; ++i) {
    StrategyProblem::Node node;
    for (int s = 0; s < strategies; ++s) {
      node.cost.push_back(cost(random));
      node.memory.push_back(cost(random));
    }
    problem.nodes.push_back(node);
    for (int j = 0; j < i; ++j) {
      if (j + 1 == i || cost(random) < 10 * density) {
        StrategyProblem::Edge edge{.from = i, .to = j};
        for (int k = 0; k < strategies * strategies; ++k) {
          edge.cost.push_back(cost(random));
        }
        problem.edges.push_back(edge);
      }
    }
  }
  return problem;
}

/// The least cost within memory, by trying every combination.
inline double brute_force(const StrategyProblem& problem, double memory) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> strategies(problem.nodes.size());
  for (bool more = true; more;) {
    const StrategyChoice choice = evaluate(problem, strategies);
    best = choice.memory <= memory ? std::min(best, choice.cost) : best;
    more = false;
    for (std::size_t i = 0; i < strategies.size() && !more; ++i) {
      strategies[i] = (strategies[i] + 1) % static_cast<int>(problem.nodes[i].cost.size());
      more = strategies[i] != 0;
    }
  }
  return best;
}

}  // namespace trireme
