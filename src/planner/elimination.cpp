#include "planner/elimination.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/indexed_vector.h"
#include "trireme/error.h"

namespace trireme::planner {

/// What a table that is still in use is over.
struct Elimination::Scope {
  std::size_t table = 0;
  std::vector<int> nodes{};  ///< in the order of the table
};

Elimination::Elimination(const StrategyProblem& problem) : problem_(problem), first_{0} {
  for (const StrategyProblem::Node& node : problem.nodes) {
    first_.push_back(first_.back() + node.cost.size());
  }
  std::vector<Scope> scopes;
  IndexedVector<int, std::vector<int>> around(problem.nodes.size());
  const auto join = [&](int a, int b) {
    std::vector<int>& list = around[a];
    const auto at = std::ranges::lower_bound(list, b);
    if (a != b && (at == list.end() || *at != b)) {
      list.insert(at, b);
    }
  };
  for (const StrategyProblem::Edge& edge : problem.edges) {
    scopes.push_back({tables_.size(), {edge.from, edge.to}});
    tables_.push_back(edge.cost);
    join(edge.from, edge.to);
    join(edge.to, edge.from);
  }
  IndexedVector<int, bool> done(problem.nodes.size());
  for (std::size_t count = 0; count < problem.nodes.size(); ++count) {
    const int node = cheapest(around, done);
    const std::vector<int> neighbors = around[node];
    done[node] = true;
    add_step(node, neighbors, scopes);
    for (const int a : neighbors) {
      std::erase(around[a], node);
      for (const int b : neighbors) {
        join(a, b);
      }
    }
  }
}

double Elimination::size(const std::vector<int>& nodes) const {
  double product = 1;
  for (const int node : nodes) {
    product *= static_cast<double>(strategies(node));
  }
  return product;
}

/// The node whose elimination leaves the smallest table. A node with at most one neighbor is taken at once.
int Elimination::cheapest(const IndexedVector<int, std::vector<int>>& around,
                          const IndexedVector<int, bool>& done) const {
  int best = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < done.count(); ++i) {
    if (done[i]) {
      continue;
    }
    if (around[i].size() <= 1) {
      return i;
    }
    if (const double entries = size(around[i]); entries < least) {
      least = entries;
      best = i;
    }
  }
  return best;
}

void Elimination::add_step(int node, const std::vector<int>& neighbors,
                           std::vector<Scope>& scopes) {
  const double entries = size(neighbors);
  const double sums = entries * static_cast<double>(strategies(node));
  if (sums > static_cast<double>(kMaxTable)) {
    throw Error(ErrorKind::Usage,
                fmt::format("the graph is too wide for an exact choice: node {} meets {} others",
                            node, neighbors.size()));
  }
  Step step{.node = node, .neighbors = neighbors};
  std::erase_if(scopes, [&](const Scope& scope) {
    const bool mine = std::ranges::find(scope.nodes, node) != scope.nodes.end();
    if (mine) {
      step.operands.push_back(operand(scope, step));
    }
    return mine;
  });
  step.result = tables_.size();
  step.best.resize(static_cast<std::size_t>(entries));
  tables_.emplace_back(step.best.size());
  scopes.push_back({step.result, neighbors});
  work_ += sums * static_cast<double>(step.operands.size() + 1);
  steps_.push_back(std::move(step));
}

Elimination::Operand Elimination::operand(const Scope& scope, const Step& step) const {
  Operand result{.table = scope.table};
  std::vector<std::size_t> strides(step.neighbors.size());
  std::size_t stride = 1;
  for (auto node = scope.nodes.rbegin(); node != scope.nodes.rend(); ++node) {
    const auto at = std::ranges::find(step.neighbors, *node);
    (at == step.neighbors.end() ? result.stride : strides[at - step.neighbors.begin()]) = stride;
    stride *= strategies(*node);
  }
  result.offsets = {0};
  for (std::size_t n = 0; n < step.neighbors.size(); ++n) {  // the last one varies fastest
    std::vector<std::size_t> longer;
    for (const std::size_t offset : result.offsets) {
      for (std::size_t s = 0; s < strategies(step.neighbors[n]); ++s) {
        longer.push_back(offset + s * strides[n]);
      }
    }
    result.offsets = std::move(longer);
  }
  return result;
}

std::vector<int> Elimination::solve(const NodeCosts& costs) {
  for (Step& step : steps_) {
    run(step, costs);
  }
  IndexedVector<int, int> chosen(problem_.nodes.size());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    std::size_t i = 0;
    for (const int neighbor : step->neighbors) {
      i = i * strategies(neighbor) + chosen[neighbor];
    }
    chosen[step->node] = step->best[i];
  }
  return std::move(chosen).items();
}

/// For each combination of the neighbors the least over the node's strategies.
void Elimination::run(Step& step, const NodeCosts& costs) {
  const auto own = costs.begin() + static_cast<std::ptrdiff_t>(first_[step.node]);
  const std::size_t count = strategies(step.node);
  std::vector<double>& result = tables_[step.result];
  for (std::size_t entry = 0; entry < step.best.size(); ++entry) {
    sums_.assign(own, own + static_cast<std::ptrdiff_t>(count));
    for (const Operand& operand : step.operands) {
      const double* table = tables_[operand.table].data() + operand.offsets[entry];
      for (std::size_t s = 0; s < count; ++s) {
        sums_[s] += table[s * operand.stride];
      }
    }
    const auto least = std::ranges::min_element(sums_);
    result[entry] = *least;
    step.best[entry] = static_cast<int>(least - sums_.begin());
  }
}

}  // namespace trireme::planner
