// A mixture of experts built from ops: router, choice, dispatch, experts, combine. Everything in f64.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/op_cases.h"
#include "trireme/autodiff.h"

namespace trireme::testing {
namespace {

/// Whether the softmax sees only the chosen experts, or all.
enum class Order : std::uint8_t { ChooseFirst, SoftmaxFirst };

struct Sizes {
  std::int64_t groups = 3;
  std::int64_t tokens = 7;  ///< of a group
  std::int64_t width = 4;
  std::int64_t experts = 5;
  std::int64_t hidden = 3;
  std::int64_t k = 2;
  std::int64_t capacity = 7;  ///< equal to tokens: nothing is dropped
};

struct Mixture {
  Graph graph{};
  Leaves leaves{};
  ValueId logits, gates, indices, dense_gates, slots, load, out, loss;
};

/// Over the last of three dimensions.
ValueId softmax(GraphBuilder& b, ValueId x) {
  const ValueId columns = b.add1("permute", {b.add1("exp", {x})}, {{"order", Numbers{2, 0, 1}}});
  const ValueId sum = b.add1("reduce_sum", {columns}, {{"axes", Numbers{0}}});
  return b.add1("permute", {b.add1("divide", {columns, sum})}, {{"order", Numbers{1, 2, 0}}});
}

ValueId einsum(GraphBuilder& b, const char* equation, ValueId x, ValueId y) {
  return b.add1("einsum", {x, y}, {{"equation", std::string(equation)}});
}

/// Gates and indices [G,N,K] from the top k of the logits [G,N,E].
void route(GraphBuilder& b, Mixture& m, std::int64_t k, Order order) {
  const ValueId scores = order == Order::SoftmaxFirst ? softmax(b, m.logits) : m.logits;
  const std::vector<ValueId> best = b.add("top_k", {scores}, {{"k", k}});
  m.gates = order == Order::ChooseFirst ? softmax(b, best[0]) : best[0];
  m.indices = best[1];
  m.dense_gates =
      b.add1("top_k_backward", {m.gates, m.indices}, {{"size", b.shape(m.logits).dim(2)}});
}

ValueId leaf(GraphBuilder& b, Mixture& m, const std::string& name, const Shape& shape) {
  m.leaves[name] =
      draw_inputs({.op = "", .inputs = {{shape}}}, static_cast<std::uint32_t>(1 + m.leaves.size()))
          .front();
  return b.parameter(name, {DType::F64, shape});
}

Mixture mixture(const Sizes& s, Order order) {
  Mixture m;
  GraphBuilder b("mixture");
  const ValueId x = leaf(b, m, "x", {s.groups, s.tokens, s.width});
  const ValueId router = leaf(b, m, "router", {s.width, s.experts});
  const ValueId w1 = leaf(b, m, "w1", {s.experts, s.width, s.hidden});
  const ValueId w2 = leaf(b, m, "w2", {s.experts, s.hidden, s.width});
  m.logits = einsum(b, "gnh,he->gne", x, router);
  route(b, m, s.k, order);
  const Attributes room{{"experts", s.experts}, {"capacity", s.capacity}};
  const std::vector<ValueId> places = b.add("expert_slots", {m.indices}, room);
  m.slots = places[0];
  m.load = places[1];
  const ValueId sent = b.add1("expert_dispatch", {x, m.slots}, room);
  const ValueId inner = b.add1("tanh", {einsum(b, "egch,ehf->egcf", sent, w1)});
  const ValueId results = einsum(b, "egcf,efh->egch", inner, w2);
  m.out = b.add1("expert_combine", {results, m.slots, m.gates});
  m.loss = b.add1("reduce_sum", {b.add1("square", {m.out})}, {{"axes", Numbers{0, 1, 2}}});
  m.graph = b.finish();
  return m;
}

Dense at(const std::vector<Dense>& values, ValueId id) {
  return values.at(id.index);
}

double element(const Dense& x, std::initializer_list<std::int64_t> index) {
  std::int64_t offset = 0;
  int d = 0;
  for (const std::int64_t i : index) {
    offset = offset * x.shape.dim(d++) + i;
  }
  return x.data.at(offset);
}

/// A token by its group and its index there.
struct Token {
  std::int64_t g = 0;
  std::int64_t n = 0;
};

std::vector<Token> all_tokens(const Sizes& s) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < s.groups * s.tokens; ++i) {
    tokens.push_back({i / s.tokens, i % s.tokens});
  }
  return tokens;
}

/// E_e(x)[h] = sum over f of tanh(sum over i of x[g,n,i] w1[e,i,f]) w2[e,f,h].
double expert_result(const Sizes& s, const Leaves& leaves, std::int64_t e, Token t,
                     std::int64_t h) {
  double result = 0;
  for (std::int64_t f = 0; f < s.hidden; ++f) {
    double inner = 0;
    for (std::int64_t i = 0; i < s.width; ++i) {
      inner += element(leaves.at("x"), {t.g, t.n, i}) * element(leaves.at("w1"), {e, i, f});
    }
    result += std::tanh(inner) * element(leaves.at("w2"), {e, f, h});
  }
  return result;
}

/// The logits of a token, computed without the graph.
std::vector<double> plain_logits(const Sizes& s, const Leaves& leaves, Token t) {
  std::vector<double> logits;
  for (std::int64_t e = 0; e < s.experts; ++e) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.width; ++i) {
      sum += element(leaves.at("x"), {t.g, t.n, i}) * element(leaves.at("router"), {i, e});
    }
    logits.push_back(sum);
  }
  return logits;
}

/// G(x): softmax over the chosen ones, or over all; 0 for those not chosen.
std::vector<double> plain_gates(const Sizes& s, const Leaves& leaves, Token t, Order order) {
  const std::vector<double> logits = plain_logits(s, leaves, t);
  std::vector<double> sorted = logits;
  std::ranges::sort(sorted, std::greater<>{});
  const double least = sorted.at(s.k - 1);
  double sum = 0;
  for (const double logit : logits) {
    sum += order == Order::SoftmaxFirst || logit >= least ? std::exp(logit) : 0;
  }
  std::vector<double> gates;
  for (const double logit : logits) {
    gates.push_back(logit >= least ? std::exp(logit) / sum : 0);
  }
  return gates;
}

class ExpertOrders : public ::testing::TestWithParam<Order> {};

TEST_P(ExpertOrders, ComputeGatedSumOfAllExperts) {
  for (const std::int64_t k : {1, 2, 5}) {
    const Sizes s{.k = k};
    const Mixture m = mixture(s, GetParam());
    const Dense out = at(evaluate(m.graph, m.leaves), m.out);
    for (const Token t : all_tokens(s)) {
      const std::vector<double> gates = plain_gates(s, m.leaves, t, GetParam());
      for (std::int64_t h = 0; h < s.width; ++h) {
        double expected = 0;
        for (std::int64_t e = 0; e < s.experts; ++e) {
          expected += gates[e] * expert_result(s, m.leaves, e, t, h);
        }
        ASSERT_NEAR(element(out, {t.g, t.n, h}), expected, 1e-12)
            << "k " << k << ", group " << t.g << ", token " << t.n;
      }
    }
  }
}

TEST_P(ExpertOrders, AreZeroExactlyOutsideChosenExperts) {
  const Sizes s;
  const Mixture m = mixture(s, GetParam());
  const Dense gates = at(evaluate(m.graph, m.leaves), m.dense_gates);
  for (const Token t : all_tokens(s)) {
    const std::vector<double> expected = plain_gates(s, m.leaves, t, GetParam());
    for (std::int64_t e = 0; e < s.experts; ++e) {
      const double gate = expected[e];
      EXPECT_EQ(element(gates, {t.g, t.n, e}) == 0, gate == 0) << t.g << ", " << t.n << ", " << e;
      EXPECT_NEAR(element(gates, {t.g, t.n, e}), gate, 1e-12);
    }
  }
}

TEST_P(ExpertOrders, GradientsMatchFiniteDifferences) {
  Mixture m = mixture({}, GetParam());
  const Gradients with =
      add_gradients(m.graph, m.loss, {m.graph.find("router"), m.graph.find("x")});
  const std::vector<Dense> values = evaluate(with.graph, m.leaves);
  const auto loss = [&] { return at(evaluate(m.graph, m.leaves), m.loss).data.at(0); };
  for (const std::size_t k : {0U, 1U}) {
    Dense& leaf = m.leaves[k == 0 ? "router" : "x"];
    for (std::size_t i = 0; i < leaf.data.size(); ++i) {
      constexpr double kStep = 1e-6;  // too small to change the choices
      const double kept = leaf.data[i];
      leaf.data[i] = kept + kStep;
      const double above = loss();
      leaf.data[i] = kept - kStep;
      const double below = loss();
      leaf.data[i] = kept;
      ASSERT_NEAR(at(values, with.values[k]).data[i], (above - below) / (2 * kStep), 1e-7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ExpertOrders,
                         ::testing::Values(Order::ChooseFirst, Order::SoftmaxFirst));

std::vector<double> sums_of_rows(const Dense& x) {
  const auto length = static_cast<std::size_t>(x.shape.dims().back());
  std::vector<double> sums(x.data.size() / length, 0);
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    sums[i / length] += x.data[i];
  }
  return sums;
}

TEST(Experts, GatesSumToOneWhenChoosingFirst) {
  const Mixture m = mixture({}, Order::ChooseFirst);
  for (const double sum : sums_of_rows(at(evaluate(m.graph, m.leaves), m.gates))) {
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Experts, OrdersAgreeOnceGatesAreNormalized) {
  const Mixture first = mixture({}, Order::ChooseFirst);
  const Mixture second = mixture({}, Order::SoftmaxFirst);
  const Dense a = at(evaluate(first.graph, first.leaves), first.gates);
  const Dense b = at(evaluate(second.graph, second.leaves), second.gates);
  const std::vector<double> sums = sums_of_rows(b);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    EXPECT_GT(a.data[i], b.data[i]);
    EXPECT_NEAR(a.data[i], b.data[i] / sums[i / 2], 1e-12);
  }
}

/// The largest gradient of the router's weights.
double router_gradient(Order order) {
  const Mixture m = mixture({.k = 1}, order);
  const Gradients with = add_gradients(m.graph, m.loss, {m.graph.find("router")});
  double largest = 0;
  const Dense gradients = at(evaluate(with.graph, m.leaves), with.values[0]);
  for (const double gradient : gradients.data) {
    largest = std::max(largest, std::abs(gradient));
  }
  return largest;
}

TEST(Experts, TopOneNeedsSoftmaxFirstToTrainRouter) {
  EXPECT_LT(router_gradient(Order::ChooseFirst), 1e-14);
  EXPECT_GT(router_gradient(Order::SoftmaxFirst), 1e-3);
}

TEST(Experts, FillsEverySlotOnceAndDropsRest) {
  for (const std::int64_t capacity : {0, 1, 2, 3, 7}) {
    const Sizes s{.capacity = capacity};
    const Mixture m = mixture(s, Order::ChooseFirst);
    const std::vector<Dense> values = evaluate(m.graph, m.leaves);
    std::set<std::pair<std::size_t, double>> given;  // by group
    double dropped = 0;
    const Dense slots = at(values, m.slots);
    const auto of_group = static_cast<std::size_t>(s.tokens * s.k);
    for (std::size_t i = 0; i < slots.data.size(); ++i) {
      const double slot = slots.data[i];
      dropped += slot < 0 ? 1 : 0;
      EXPECT_TRUE(slot < 0 || given.insert({i / of_group, slot}).second)
          << slot << " is assigned twice";
    }
    double wanted = 0;
    double over = 0;
    const Dense loads = at(values, m.load);
    for (const double load : loads.data) {
      wanted += load;
      over += std::max(0.0, load - static_cast<double>(capacity));
    }
    EXPECT_EQ(wanted, static_cast<double>(s.groups * s.tokens * s.k));
    EXPECT_EQ(dropped, over) << "capacity " << capacity;
  }
}

TEST(Experts, DroppedTokensReturnZeros) {
  const Mixture m = mixture({.capacity = 0}, Order::ChooseFirst);
  const Dense out = at(evaluate(m.graph, m.leaves), m.out);
  EXPECT_EQ(out.data, std::vector<double>(out.data.size(), 0));
}

/// The results of an op on choices [G,N,K].
std::vector<Dense> on_choices(const char* op, const Shape& shape, std::vector<double> indices,
                              const Attributes& attributes) {
  GraphBuilder b("choices");
  const ValueId in = b.input("indices", {DType::I32, shape});
  const std::vector<ValueId> results = b.add(op, {in}, attributes);
  Dense values(shape);
  values.data = std::move(indices);
  const std::vector<Dense> all = evaluate(b.finish(), {{"indices", values}});
  std::vector<Dense> found;
  for (const ValueId id : results) {
    found.push_back(at(all, id));
  }
  return found;
}

TEST(Experts, FirstChoicesPrecedeSecondChoices) {
  // Token 0 wants expert 0, then 1; token 1 wants 1, then 0; token 2 wants 1, then 0. With a capacity of two each,
  // expert 1 is full after the first choices, and expert 0 has one slot left, for token 1.
  const auto found = on_choices("expert_slots", {1, 3, 2}, {0, 1, 1, 0, 1, 0},
                                {{"experts", std::int64_t{2}}, {"capacity", std::int64_t{2}}});
  EXPECT_EQ(found[0].data, (std::vector<double>{0, -1, 2, 1, 3, -1}));
  EXPECT_EQ(found[1].data, (std::vector<double>{3, 3}));
}

TEST(Experts, GroupsDoNotShareSlots) {
  // Four tokens that all want expert 1, which has a capacity of one per group: two groups of two.
  const auto found = on_choices("expert_slots", {2, 2, 1}, {1, 1, 1, 1},
                                {{"experts", std::int64_t{2}}, {"capacity", std::int64_t{1}}});
  EXPECT_EQ(found[0].data, (std::vector<double>{1, -1, 1, -1}));
  EXPECT_EQ(found[1].data, (std::vector<double>{0, 2, 0, 2}));
}

TEST(Experts, LoadCountsChoicesOfAllGroups) {
  const auto found =
      on_choices("expert_load", {2, 1, 2}, {0, 2, 2, 2}, {{"experts", std::int64_t{4}}});
  EXPECT_EQ(found[0].data, (std::vector<double>{1, 0, 3, 0}));
}

/// What a device computes for its sequences does not depend on other sequences.
TEST(Experts, GroupResultIsIndependentOfOtherGroups) {
  const Sizes s{.capacity = 2};  // some are dropped
  const Mixture all = mixture(s, Order::ChooseFirst);
  const Dense together = at(evaluate(all.graph, all.leaves), all.out);
  Mixture one = mixture({.groups = 1, .capacity = 2}, Order::ChooseFirst);
  for (const char* name : {"router", "w1", "w2"}) {
    one.leaves[name] = all.leaves.at(name);
  }
  const auto length = static_cast<std::ptrdiff_t>(s.tokens * s.width);
  for (std::ptrdiff_t g = 0; g < s.groups; ++g) {
    const auto part = [&](const Dense& x) {
      return std::vector<double>(x.data.begin() + g * length, x.data.begin() + (g + 1) * length);
    };
    one.leaves["x"].data = part(all.leaves.at("x"));
    EXPECT_EQ(at(evaluate(one.graph, one.leaves), one.out).data, part(together)) << g;
  }
}

}  // namespace
}  // namespace trireme::testing
