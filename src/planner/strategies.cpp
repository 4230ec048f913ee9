// The cheapest strategies, and the cheapest within memory: a Lagrangian bound, and branch and bound where it leaves a gap.
//
// With a price p of memory, cost + p * (memory - limit) of the choice that is cheapest at this price is a lower bound for
// every choice that fits. The best price lies where the line through a choice that does not fit and one that does is
// touched by no other choice. If the choice that fits costs more than the bound there, the problem is split: one node has
// a certain strategy, or any other.
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include <fmt/format.h>

#include "planner/elimination.h"
#include "trireme/error.h"
#include "trireme/placement_search.h"

namespace trireme {
namespace planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check(const StrategyProblem& problem) {
  const auto count = static_cast<int>(problem.nodes.size());
  for (const StrategyProblem::Node& node : problem.nodes) {
    if (node.cost.empty() || (!node.memory.empty() && node.memory.size() != node.cost.size())) {
      throw Error(ErrorKind::Usage,
                  "a node without strategies, or with a memory that is not one per strategy");
    }
  }
  for (const StrategyProblem::Edge& edge : problem.edges) {
    const bool known = edge.from >= 0 && edge.from < count && edge.to >= 0 && edge.to < count &&
                       edge.from != edge.to;
    if (!known || edge.cost.size() !=
                      problem.nodes[edge.from].cost.size() * problem.nodes[edge.to].cost.size()) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("the edge from {} to {} is not one of {} nodes, or has not a cost for "
                      "each pair of strategies",
                      edge.from, edge.to, count));
    }
  }
}

class WithinMemory {
 public:
  WithinMemory(const StrategyProblem& problem, double limit)
      : problem_(problem), limit_(limit), elimination_(problem) {}

  std::optional<StrategyChoice> solve() {
    std::priority_queue<Part> parts;
    parts.push(bounded({}, -kInfinity));
    double bound = parts.top().bound;
    while (!parts.empty()) {
      const Part part = parts.top();
      bound = part.bound;
      if (closed(bound) || sums_ > kMaxSums) {
        break;
      }
      parts.pop();
      split(part, parts);
    }
    if (best_) {
      best_->bound = parts.empty() || closed(bound) ? best_->cost : bound;
    }
    return std::move(best_);
  }

 private:
  static constexpr double kMaxSums = 5e7;      ///< of all eliminations together; about 0.05 s
  static constexpr double kPrecision = 1e-12;  ///< relative

  struct Exclusion {
    int node = 0;
    int strategy = 0;
  };
  /// The choices without certain strategies.
  struct Part {
    std::vector<Exclusion> excluded{};
    double bound = 0;  ///< no choice of this part that fits is cheaper
    Exclusion pivot{};
    /// The queue's top is the part with the least bound.
    bool operator<(const Part& other) const { return bound > other.bound; }
  };

  [[nodiscard]] bool closed(double bound) const {
    return bound == kInfinity || (best_ && best_->cost - bound <= kPrecision * std::abs(bound));
  }

  StrategyChoice cheapest(const std::vector<Exclusion>& excluded, double price) {
    std::vector<double> costs;
    costs.reserve(elimination_.node_costs());
    for (const StrategyProblem::Node& node : problem_.nodes) {
      for (std::size_t s = 0; s < node.cost.size(); ++s) {
        costs.push_back(node.cost[s] + (node.memory.empty() ? 0 : price * node.memory[s]));
      }
    }
    for (const Exclusion& e : excluded) {
      costs[elimination_.first_cost(e.node) + e.strategy] = kInfinity;
    }
    sums_ += elimination_.work();
    return evaluate(problem_, elimination_.solve(costs));
  }

  /// The choice with the least memory, whatever it costs: node by node.
  [[nodiscard]] StrategyChoice smallest(const std::vector<Exclusion>& excluded) const {
    std::vector<int> strategies;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      const StrategyProblem::Node& node = problem_.nodes[i];
      std::vector<double> memory =
          node.memory.empty() ? std::vector<double>(node.cost.size()) : node.memory;
      for (const Exclusion& e : excluded) {
        if (e.node == static_cast<int>(i)) {
          memory[e.strategy] = kInfinity;
        }
      }
      strategies.push_back(static_cast<int>(std::ranges::min_element(memory) - memory.begin()));
    }
    return evaluate(problem_, std::move(strategies));
  }

  void keep(const StrategyChoice& choice) {
    if (choice.memory <= limit_ && (!best_ || choice.cost < best_->cost)) {
      best_ = choice;
    }
  }

  /// Finds the best price of the part.
  Part bounded(std::vector<Exclusion> excluded, double at_least) {
    Part part{.excluded = std::move(excluded), .bound = kInfinity};
    StrategyChoice low = cheapest(part.excluded, 0);
    StrategyChoice high = smallest(part.excluded);
    keep(high);
    keep(low);
    if (high.memory > limit_) {
      return part;
    }
    if (low.memory <= limit_) {
      part.bound = std::max(at_least, low.cost);
      return part;
    }
    for (bool touched = false; !touched;) {
      const double price = (high.cost - low.cost) / (low.memory - high.memory);
      const double line = low.cost + price * low.memory;
      StrategyChoice next = cheapest(part.excluded, price);
      const double value = next.cost + price * next.memory;
      touched = price <= 0 || value >= line - kPrecision * std::abs(line);
      part.bound = std::min(line, value) - price * limit_;
      keep(next);
      if (!touched) {
        (next.memory <= limit_ ? high : low) = std::move(next);
      }
    }
    part.bound = std::max(part.bound, at_least);
    part.pivot = pivot(low, high);
    return part;
  }

  /// Where the two differ most in memory.
  [[nodiscard]] Exclusion pivot(const StrategyChoice& low, const StrategyChoice& high) const {
    Exclusion found;
    double most = -1;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      const StrategyProblem::Node& node = problem_.nodes[i];
      if (low.strategies[i] == high.strategies[i] || node.memory.empty()) {
        continue;
      }
      const double difference =
          std::abs(node.memory[low.strategies[i]] - node.memory[high.strategies[i]]);
      if (difference > most) {
        most = difference;
        found = {static_cast<int>(i), low.strategies[i]};
      }
    }
    return found;
  }

  /// The pivot's strategy, or any other.
  void split(const Part& part, std::priority_queue<Part>& parts) {
    std::vector<Exclusion> without = part.excluded;
    without.push_back(part.pivot);
    std::vector<Exclusion> with = part.excluded;
    const StrategyProblem::Node& node = problem_.nodes[part.pivot.node];
    for (std::size_t s = 0; s < node.cost.size(); ++s) {
      if (static_cast<int>(s) != part.pivot.strategy) {
        with.push_back({part.pivot.node, static_cast<int>(s)});
      }
    }
    for (std::vector<Exclusion>* excluded : {&without, &with}) {
      Part next = bounded(std::move(*excluded), part.bound);
      if (!closed(next.bound)) {
        parts.push(std::move(next));
      }
    }
  }

  const StrategyProblem& problem_;
  double limit_;
  Elimination elimination_;
  std::optional<StrategyChoice> best_;
  double sums_ = 0;
};

}  // namespace
}  // namespace planner

StrategyChoice evaluate(const StrategyProblem& problem, std::vector<int> strategies) {
  StrategyChoice choice;
  const auto at = [&](int node) { return strategies.at(node); };
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const StrategyProblem::Node& node = problem.nodes[i];
    choice.cost += node.cost[at(static_cast<int>(i))];
    choice.memory += node.memory.empty() ? 0 : node.memory[at(static_cast<int>(i))];
  }
  for (const StrategyProblem::Edge& edge : problem.edges) {
    const std::size_t columns = problem.nodes[edge.to].cost.size();
    choice.cost += edge.cost[at(edge.from) * columns + at(edge.to)];
  }
  choice.strategies = std::move(strategies);
  return choice;
}

StrategyChoice choose_strategies(const StrategyProblem& problem) {
  planner::check(problem);
  std::vector<double> costs;
  for (const StrategyProblem::Node& node : problem.nodes) {
    costs.insert(costs.end(), node.cost.begin(), node.cost.end());
  }
  StrategyChoice choice = evaluate(problem, planner::Elimination(problem).solve(costs));
  choice.bound = choice.cost;
  return choice;
}

std::optional<StrategyChoice> choose_strategies(const StrategyProblem& problem, double memory) {
  planner::check(problem);
  return planner::WithinMemory(problem, memory).solve();
}

}  // namespace trireme
