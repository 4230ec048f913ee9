// Elimination: the cheapest choice of strategies, exactly. One thread at a time.
//
// The problem is a sum of tables over the strategies of few nodes. To eliminate a node, add up the tables that mention it
// and replace them by one over its neighbors: the minimum over the node's strategies, for each combination of theirs. The
// order is by the size of the table that results, smallest first. It depends on the graph alone, so it is found once and
// serves for any costs of the nodes.
#pragma once

#include <vector>

#include "base/indexed_vector.h"
#include "trireme/placement_search.h"

namespace trireme::planner {

class Elimination {
 public:
  /// Throws Error(Usage) if the graph is too wide. The problem lives longer.
  explicit Elimination(const StrategyProblem& problem);

  /// By node, one after the other: what each of its strategies costs.
  using NodeCosts = std::vector<double>;
  /// Where a node's costs begin.
  [[nodiscard]] std::size_t first_cost(int node) const { return first_[node]; }
  [[nodiscard]] std::size_t node_costs() const { return first_.back(); }

  /// The cheapest strategies with these costs of the nodes; an infinite cost excludes a strategy.
  [[nodiscard]] std::vector<int> solve(const NodeCosts& costs);
  /// How many sums solve() makes.
  [[nodiscard]] double work() const { return work_; }

 private:
  /// A table as one step reads it.
  struct Operand {
    std::size_t table = 0;
    std::size_t stride = 1;              ///< between the node's strategies
    std::vector<std::size_t> offsets{};  ///< by combination of the neighbors
  };
  struct Step {
    int node = 0;
    std::vector<int> neighbors{};
    std::vector<Operand> operands{};
    std::size_t result = 0;   ///< the table that it makes
    std::vector<int> best{};  ///< of the node's strategies, by combination of the neighbors
  };
  struct Scope;

  [[nodiscard]] std::size_t strategies(int node) const { return first_[node + 1] - first_[node]; }
  [[nodiscard]] double size(const std::vector<int>& nodes) const;
  [[nodiscard]] int cheapest(const IndexedVector<int, std::vector<int>>& around,
                             const IndexedVector<int, bool>& done) const;
  void add_step(int node, const std::vector<int>& neighbors, std::vector<Scope>& scopes);
  [[nodiscard]] Operand operand(const Scope& scope, const Step& step) const;
  void run(Step& step, const NodeCosts& costs);

  const StrategyProblem& problem_;
  IndexedVector<int, std::size_t> first_;
  /// Of the edges, then of the steps; the last node varies fastest.
  std::vector<std::vector<double>> tables_;
  std::vector<Step> steps_;
  std::vector<double> sums_;  ///< scratch of run()
  double work_ = 0;
};

}  // namespace trireme::planner
