// Elimination. The problem is a sum of tables over the strategies of few nodes. To eliminate a node, add up the tables
// that mention it and replace them by one over its neighbors: the minimum over the node's strategies, for each
// combination of theirs. The order is by the size of the table that results, smallest first.
#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/placement_search.h"

namespace trireme {
namespace {

/// A function of the strategies of some nodes; the last one varies fastest.
struct Table {
  std::vector<int> nodes{};  ///< in increasing order
  std::vector<double> cost{};
};

/// How an eliminated node's strategy follows from its neighbors'.
struct Step {
  int node = 0;
  std::vector<int> neighbors{};
  std::vector<int> best{};  ///< by their combination
};

class Elimination {
 public:
  /// Memory counts at `price` per byte.
  Elimination(const StrategyProblem& problem, double price) : problem_(problem) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const StrategyProblem::Node& node = problem.nodes[i];
      Table table{{static_cast<int>(i)}, node.cost};
      for (std::size_t s = 0; s < node.memory.size(); ++s) {
        table.cost[s] += price * node.memory[s];
      }
      tables_.push_back(std::move(table));
    }
    for (const StrategyProblem::Edge& edge : problem.edges) {
      tables_.push_back(edge_table(edge));
    }
  }

  std::vector<int> solve() {
    std::vector<bool> done(problem_.nodes.size());
    for (std::size_t count = 0; count < problem_.nodes.size(); ++count) {
      const int node = next(done);
      done[static_cast<std::size_t>(node)] = true;
      eliminate(node);
    }
    return trace_back();
  }

 private:
  [[nodiscard]] int strategies(int node) const {
    return static_cast<int>(problem_.nodes[static_cast<std::size_t>(node)].cost.size());
  }

  [[nodiscard]] Table edge_table(const StrategyProblem::Edge& edge) const {
    if (edge.from < edge.to) {
      return {{edge.from, edge.to}, edge.cost};
    }
    Table table{{edge.to, edge.from}, std::vector<double>(edge.cost.size())};
    const auto rows = static_cast<std::size_t>(strategies(edge.from));
    const auto columns = static_cast<std::size_t>(strategies(edge.to));
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        table.cost[c * rows + r] = edge.cost[r * columns + c];
      }
    }
    return table;
  }

  [[nodiscard]] std::vector<int> neighbors(int node) const {
    std::vector<int> found;
    for (const Table& table : tables_) {
      if (std::ranges::find(table.nodes, node) != table.nodes.end()) {
        found.insert(found.end(), table.nodes.begin(), table.nodes.end());
      }
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::erase(found, node);
    return found;
  }

  [[nodiscard]] double size(const std::vector<int>& nodes) const {
    double product = 1;
    for (const int node : nodes) {
      product *= strategies(node);
    }
    return product;
  }

  /// The node whose elimination leaves the smallest table. A node with at most one neighbor is taken at once.
  [[nodiscard]] int next(const std::vector<bool>& done) const {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (done[i]) {
        continue;
      }
      const std::vector<int> around = neighbors(static_cast<int>(i));
      const double entries = size(around);
      if (entries < least) {
        least = entries;
        best = static_cast<int>(i);
      }
      if (around.size() <= 1) {
        return best;
      }
    }
    return best;
  }

  void eliminate(int node) {
    Step step{.node = node, .neighbors = neighbors(node)};
    const double entries = size(step.neighbors) * strategies(node);
    if (entries > static_cast<double>(kMaxTable)) {
      throw Error(ErrorKind::Usage,
                  fmt::format("the graph is too wide for an exact choice: node {} meets {} others",
                              node, step.neighbors.size()));
    }
    std::vector<Table> mine;
    std::erase_if(tables_, [&](Table& table) {
      const bool found = std::ranges::find(table.nodes, node) != table.nodes.end();
      if (found) {
        mine.push_back(std::move(table));
      }
      return found;
    });
    tables_.push_back(minimize(step, mine));
    steps_.push_back(std::move(step));
  }

  /// For each combination of the neighbors the least over the node's strategies.
  Table minimize(Step& step, const std::vector<Table>& mine) {
    Table result{step.neighbors, {}};
    const auto entries = static_cast<std::size_t>(size(step.neighbors));
    result.cost.resize(entries);
    step.best.resize(entries);
    std::map<int, int> at;
    for (const int neighbor : step.neighbors) {
      at[neighbor] = 0;
    }
    for (std::size_t e = 0; e < entries; ++e) {
      double least = std::numeric_limits<double>::infinity();
      for (int s = 0; s < strategies(step.node); ++s) {
        at[step.node] = s;
        double sum = 0;
        for (const Table& table : mine) {
          sum += table.cost[index(table, at)];
        }
        if (sum < least) {
          least = sum;
          step.best[e] = s;
        }
      }
      result.cost[e] = least;
      advance(step.neighbors, at);
    }
    return result;
  }

  [[nodiscard]] std::size_t index(const Table& table, const std::map<int, int>& at) const {
    std::size_t i = 0;
    for (const int node : table.nodes) {
      i = i * static_cast<std::size_t>(strategies(node)) + static_cast<std::size_t>(at.at(node));
    }
    return i;
  }

  /// The next combination; the last node varies fastest.
  void advance(const std::vector<int>& nodes, std::map<int, int>& at) const {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (++at[*node] < strategies(*node)) {
        return;
      }
      at[*node] = 0;
    }
  }

  [[nodiscard]] std::vector<int> trace_back() const {
    std::vector<int> chosen(problem_.nodes.size());
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::size_t i = 0;
      for (const int neighbor : step->neighbors) {
        i = i * static_cast<std::size_t>(strategies(neighbor)) +
            static_cast<std::size_t>(chosen[static_cast<std::size_t>(neighbor)]);
      }
      chosen[static_cast<std::size_t>(step->node)] = step->best[i];
    }
    return chosen;
  }

  const StrategyProblem& problem_;
  std::vector<Table> tables_;
  std::vector<Step> steps_;
};

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
    if (!known ||
        edge.cost.size() != problem.nodes[static_cast<std::size_t>(edge.from)].cost.size() *
                                problem.nodes[static_cast<std::size_t>(edge.to)].cost.size()) {
      throw Error(
          ErrorKind::Usage,
          fmt::format("the edge from {} to {} is not one of {} nodes, or has not a cost for "
                      "each pair of strategies",
                      edge.from, edge.to, count));
    }
  }
}

}  // namespace

StrategyChoice evaluate(const StrategyProblem& problem, std::vector<int> strategies) {
  StrategyChoice choice;
  const auto at = [&](int node) {
    return static_cast<std::size_t>(strategies.at(static_cast<std::size_t>(node)));
  };
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const StrategyProblem::Node& node = problem.nodes[i];
    choice.cost += node.cost[at(static_cast<int>(i))];
    choice.memory += node.memory.empty() ? 0 : node.memory[at(static_cast<int>(i))];
  }
  for (const StrategyProblem::Edge& edge : problem.edges) {
    const std::size_t columns = problem.nodes[static_cast<std::size_t>(edge.to)].cost.size();
    choice.cost += edge.cost[at(edge.from) * columns + at(edge.to)];
  }
  choice.strategies = std::move(strategies);
  return choice;
}

StrategyChoice choose_strategies(const StrategyProblem& problem) {
  check(problem);
  StrategyChoice choice = evaluate(problem, Elimination(problem, 0).solve());
  choice.bound = choice.cost;
  return choice;
}

std::optional<StrategyChoice> choose_strategies(const StrategyProblem& problem, double memory) {
  constexpr int kRounds = 60;
  const StrategyChoice free = choose_strategies(problem);
  if (free.memory <= memory) {
    return free;
  }
  std::optional<StrategyChoice> best;
  double bound = free.cost;
  // With a price p, cost + p * (memory - limit) of the cheapest choice is a lower bound for every choice that fits.
  const auto try_price = [&](double price) {
    StrategyChoice choice = evaluate(problem, Elimination(problem, price).solve());
    bound = std::max(bound, choice.cost + price * (choice.memory - memory));
    const bool fits = choice.memory <= memory;
    if (fits && (!best || choice.cost < best->cost)) {
      best = std::move(choice);
    }
    return fits;
  };
  double low = 0;
  double high = std::max(1e-12, std::abs(free.cost) / std::max(1.0, memory));
  for (int i = 0; i < kRounds && !try_price(high); ++i) {
    low = high;
    high *= 4;
  }
  for (int i = 0; i < kRounds && best && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (try_price(middle) ? high : low) = middle;
  }
  if (best) {
    best->bound = std::min(bound, best->cost);
  }
  return best;
}

}  // namespace trireme
