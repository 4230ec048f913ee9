// Exact choices, against an independent solver: the integer program of Alpa (Zheng et al. 2022), solved by Cbc. One binary
// variable for each strategy of each node, of which one is 1; one variable for each pair of strategies of an edge, whose
// sums over rows and columns are those of the two nodes.
#include <memory>

#include <coin/Cbc_C_Interface.h>
#include <gtest/gtest.h>

#include "random_problem.h"
#include "trireme/placement_search.h"

namespace trireme {
namespace {

class IntegerProgram {
 public:
  IntegerProgram() : model_(Cbc_newModel(), Cbc_deleteModel) {
    Cbc_setLogLevel(model_.get(), 0);
    Cbc_setAllowableGap(model_.get(), 0);
    Cbc_setParameter(model_.get(), "ratioGap", "0");
  }

  enum class Kind : char { Continuous = 0, Integer = 1 };
  /// Between 0 and 1. Returns its number.
  int add_variable(double cost, Kind kind) {
    Cbc_addCol(model_.get(), "", 0, 1, cost, static_cast<char>(kind), 0, nullptr, nullptr);
    return variables_++;
  }
  void add_row(const std::vector<int>& variables, const std::vector<double>& factors, char sense,
               double right) {
    Cbc_addRow(model_.get(), "", static_cast<int>(variables.size()), variables.data(),
               factors.data(), sense, right);
  }
  /// Nothing if there is no solution.
  std::optional<double> minimum() {
    Cbc_solve(model_.get());
    if (Cbc_isProvenInfeasible(model_.get()) != 0) {
      return std::nullopt;
    }
    EXPECT_EQ(Cbc_isProvenOptimal(model_.get()), 1);
    return Cbc_getObjValue(model_.get());
  }

 private:
  std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model_;
  int variables_ = 0;
};

class StrategyProgram {
 public:
  explicit StrategyProgram(const StrategyProblem& problem) {
    for (const StrategyProblem::Node& node : problem.nodes) {
      add_node(node);
    }
    for (const StrategyProblem::Edge& edge : problem.edges) {
      add_edge(edge);
    }
  }

  void limit_memory(const StrategyProblem& problem, double memory) {
    std::vector<int> variables;
    std::vector<double> factors;
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      variables.insert(variables.end(), nodes_[i].begin(), nodes_[i].end());
      factors.insert(factors.end(), problem.nodes[i].memory.begin(), problem.nodes[i].memory.end());
    }
    program_.add_row(variables, factors, 'L', memory);
  }

  std::optional<double> minimum() { return program_.minimum(); }

 private:
  void add_node(const StrategyProblem::Node& node) {
    std::vector<int> chosen;
    for (const double cost : node.cost) {
      chosen.push_back(program_.add_variable(cost, IntegerProgram::Kind::Integer));
    }
    program_.add_row(chosen, std::vector<double>(chosen.size(), 1), 'E', 1);
    nodes_.push_back(chosen);
  }

  void add_edge(const StrategyProblem::Edge& edge) {
    const std::vector<int>& from = nodes_[static_cast<std::size_t>(edge.from)];
    const std::vector<int>& to = nodes_[static_cast<std::size_t>(edge.to)];
    std::vector<int> pairs;
    for (const double cost : edge.cost) {
      pairs.push_back(program_.add_variable(cost, IntegerProgram::Kind::Continuous));
    }
    for (std::size_t r = 0; r < from.size(); ++r) {
      add_sum(from[r], pairs, r * to.size(), 1, to.size());
    }
    for (std::size_t c = 0; c < to.size(); ++c) {
      add_sum(to[c], pairs, c, to.size(), from.size());
    }
  }

  /// `count` of the pairs add up to the node's variable.
  void add_sum(int variable, const std::vector<int>& pairs, std::size_t first, std::size_t stride,
               std::size_t count) {
    std::vector<int> variables{variable};
    std::vector<double> factors{-1};
    for (std::size_t i = 0; i < count; ++i) {
      variables.push_back(pairs[first + i * stride]);
      factors.push_back(1);
    }
    program_.add_row(variables, factors, 'E', 0);
  }

  IntegerProgram program_;
  std::vector<std::vector<int>> nodes_;
};

TEST(Strategies, MatchIntegerProgram) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    const StrategyProblem problem = random_problem(random, 4 + round, 2 + round % 4, 0.1);
    const std::optional<double> expected = StrategyProgram(problem).minimum();
    ASSERT_TRUE(expected);
    EXPECT_NEAR(choose_strategies(problem).cost, *expected, 1e-6) << round;
  }
}

TEST(Strategies, WithinMemoryMatchIntegerProgram) {
  std::mt19937_64 random(12);
  int impossible = 0;
  for (int round = 0; round < 30; ++round) {
    const int nodes = 4 + round % 9;
    const StrategyProblem problem = random_problem(random, nodes, 2 + round % 4, 0.1);
    const double memory = (1 + 0.1 * round) * nodes;
    StrategyProgram program(problem);
    program.limit_memory(problem, memory);
    const std::optional<double> expected = program.minimum();
    const std::optional<StrategyChoice> choice = choose_strategies(problem, memory);
    ASSERT_EQ(choice.has_value(), expected.has_value()) << round;
    if (choice) {
      EXPECT_NEAR(choice->cost, *expected, 1e-6) << round;
      EXPECT_EQ(choice->bound, choice->cost) << round;
    } else {
      ++impossible;
    }
  }
  EXPECT_GT(impossible, 0);
  EXPECT_LT(impossible, 15);
}

}  // namespace
}  // namespace trireme
