// Ops that move, choose and slide, on hand-computed examples.
#include <cmath>

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/numbers.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme::testing {
namespace {

using Elements = std::vector<double>;

struct Input {
  Shape shape{};
  Elements elements{};
  DType dtype = DType::F32;
};

/// The results of one node with these inputs.
std::vector<Dense> run(const char* op, const std::vector<Input>& inputs,
                       const Attributes& attributes = {}) {
  GraphBuilder builder("one");
  std::vector<ValueId> ids;
  Leaves leaves;
  for (const Input& input : inputs) {
    const std::string name = "in" + std::to_string(ids.size());
    ids.push_back(builder.input(name, {input.dtype, input.shape}));
    leaves[name] = Dense(input.shape);
    leaves[name].data = input.elements;
  }
  const std::vector<ValueId> results = builder.add(op, ids, attributes);
  const std::vector<Dense> values = evaluate(builder.finish(), leaves);
  std::vector<Dense> found;
  for (const ValueId id : results) {
    found.push_back(values[id.index]);
  }
  return found;
}

Elements count_to(int n) {
  Elements elements;
  for (int i = 0; i < n; ++i) {
    elements.push_back(i);
  }
  return elements;
}

/// "a b | [a][b] -> [a,b]": the factors of a reshape, '!' after those that stay whole.
std::string reshape_factors(const Shape& from, const Numbers& to) {
  GraphBuilder builder("one");
  builder.add1("reshape", {builder.input("x", {DType::F32, from})}, {{"shape", to}});
  const Factors factors = factors_of(builder.graph(), builder.graph().nodes().front());
  const auto text = [&](const Factors::Dims& dims) {
    std::string result;
    for (const auto& dim : dims) {
      result += "[";
      for (const std::int32_t f : dim) {
        const Factor& factor = factors.factors.at(f);
        result += result.back() == '[' ? "" : " ";
        result += std::to_string(f) + ":" + std::to_string(factor.size);
        result += factor.split == Factor::Split::Never ? "!" : "";
      }
      result += "]";
    }
    return result;
  };
  return text(factors.inputs[0]) + " -> " + text(factors.outputs[0]);
}

TEST(Reshape, MatchesDimensionsByTheirFactors) {
  EXPECT_EQ(reshape_factors({2, 3, 8}, {2, 3, 2, 4}),
            "[0:2][1:3][2:2 3:4] -> [0:2][1:3][2:2][3:4]");
  EXPECT_EQ(reshape_factors({2, 3, 8}, {6, 8}), "[0:2][1:3][2:8] -> [0:2 1:3][2:8]");
  EXPECT_EQ(reshape_factors({2, 6}, {4, 3}), "[0:2][1:2 2:3] -> [0:2 1:2][2:3]");
  EXPECT_EQ(reshape_factors({1, 7, 1}, {7}), "[][0:7][] -> [0:7]");
}

TEST(Reshape, LeavesUnmatchedDimensionsUnsharded) {
  EXPECT_EQ(reshape_factors({5, 2, 3}, {5, 3, 2}), "[0:5][1:2!][3:3!] -> [0:5][2:3!][4:2!]");
  EXPECT_EQ(reshape_factors({2, 6, 10, 7}, {8, 15, 7}),
            "[0:2][1:6!][4:10!][5:7] -> [0:2 2:4!][3:15!][5:7]");
  EXPECT_EQ(reshape_factors({0, 3}, {5, 0}), "[0:0!][1:3!] -> [2:5!][3:0!]");
}

TEST(Permute, MovesElementsWithTheirDimensions) {
  const auto y = run("permute", {{{2, 3}, count_to(6)}}, {{"order", Numbers{1, 0}}});
  EXPECT_EQ(y[0].shape, (Shape{3, 2}));
  EXPECT_EQ(y[0].data, (Elements{0, 3, 1, 4, 2, 5}));
  EXPECT_THROW(run("permute", {{{2, 3}, count_to(6)}}, {{"order", Numbers{1, 1}}}), Error);
}

TEST(Slice, ExtractsRange) {
  const Attributes middle{{"begin", Numbers{0, 1}}, {"end", Numbers{2, 3}}};
  EXPECT_EQ(run("slice", {{{2, 4}, count_to(8)}}, middle)[0].data, (Elements{1, 2, 5, 6}));
  const Attributes past{{"begin", Numbers{1}}, {"end", Numbers{9}}};
  EXPECT_EQ(run("slice", {{{3}, count_to(3)}}, past)[0].data, (Elements{1, 2}));
  const Attributes backwards{{"begin", Numbers{2}}, {"end", Numbers{1}}};
  EXPECT_THROW(run("slice", {{{3}, count_to(3)}}, backwards), Error);
}

TEST(Pad, PadsWithZeros) {
  const Attributes around{{"before", Numbers{0, 1}}, {"after", Numbers{1, 0}}};
  EXPECT_EQ(run("pad", {{{1, 2}, {7, 8}}}, around)[0].data, (Elements{0, 7, 8, 0, 0, 0}));
}

TEST(Concat, JoinsParts) {
  const auto y =
      run("concat", {{{2, 1}, {1, 2}}, {{2, 2}, {3, 4, 5, 6}}}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(y[0].data, (Elements{1, 3, 4, 2, 5, 6}));
  EXPECT_THROW(run("concat", {{{2, 1}, {1, 2}}, {{1, 2}, {3, 4}}}, {{"axis", std::int64_t{1}}}),
               Error);
}

TEST(Conv2d, SlidesWeightsOverImage) {
  // 0 1 2     1 2
  // 3 4 5  *  0 1  : top left 0 + 2 + 4, top right 1 + 4 + 5, …
  // 6 7 8
  const Input image{{1, 1, 3, 3}, count_to(9)};
  const Input weights{{1, 1, 2, 2}, {1, 2, 0, 1}};
  EXPECT_EQ(run("conv2d", {image, weights})[0].data, (Elements{6, 10, 18, 22}));
  const Attributes sparse{{"stride", Numbers{2, 2}}, {"padding", Numbers{1, 1}}};
  EXPECT_EQ(run("conv2d", {image, weights}, sparse)[0].data, (Elements{0, 2, 12, 22}));
}

TEST(Conv2d, FlopsMatchFormula) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f32[2,3,8,8]
    parameter %w: f32[5,3,3,3]
    %y: f32[2,5,8,8] = conv2d(%x, %w) padding=[1,1] stride=[1,1]
  })");
  EXPECT_EQ(work_of(graph, graph.nodes().front()).products, 2.0 * 2 * 5 * 8 * 8 * 3 * 3 * 3);
}

TEST(Pools, ComputeMaximumAndMean) {
  const Input image{{1, 1, 2, 4}, {1, 5, -3, -4, 2, 0, -1, -8}};
  const Attributes two{{"kernel", Numbers{2, 2}}, {"stride", Numbers{2, 2}}};
  EXPECT_EQ(run("max_pool", {image}, two)[0].data, (Elements{5, -1}));
  EXPECT_EQ(run("avg_pool", {image}, two)[0].data, (Elements{2, -4}));
  Attributes padded = two;
  padded["padding"] = Numbers{1, 1};
  const Input negative{{1, 1, 1, 1}, {-4}};
  EXPECT_EQ(run("max_pool", {negative}, padded)[0].data, (Elements{-4}));
  EXPECT_EQ(run("avg_pool", {negative}, padded)[0].data, (Elements{-1}));
}

TEST(Pools, RouteGradientToFirstOfEqualPixels) {
  const auto dx = run("max_pool_backward", {{{1, 1, 1, 1}, {3}}, {{1, 1, 2, 2}, {1, 7, 7, 7}}},
                      {{"kernel", Numbers{2, 2}}});
  EXPECT_EQ(dx[0].data, (Elements{0, 3, 0, 0}));
}

TEST(TopK, BreaksTiesByLowerIndex) {
  const auto found =
      run("top_k", {{{2, 4}, {1, 3, 3, 2, -1, -2, -1, -1}}}, {{"k", std::int64_t{3}}});
  EXPECT_EQ(found[0].data, (Elements{3, 3, 2, -1, -1, -1}));
  EXPECT_EQ(found[1].data, (Elements{1, 2, 3, 0, 2, 3}));
  EXPECT_THROW(run("top_k", {{{2}, {1, 2}}}, {{"k", std::int64_t{3}}}), Error);
}

TEST(Rows, AreGatheredAndScatteredBack) {
  const Input indices{{1, 2}, {2, 0}, DType::I32};
  EXPECT_EQ(run("gather_rows", {{{1, 3, 2}, count_to(6)}, indices})[0].data,
            (Elements{4, 5, 0, 1}));
  const Input twice{{1, 2}, {1, 1}, DType::I32};
  EXPECT_EQ(
      run("scatter_rows", {{{1, 2, 2}, {1, 2, 3, 4}}, twice}, {{"rows", std::int64_t{3}}})[0].data,
      (Elements{0, 0, 4, 6, 0, 0}));
  const Input beyond{{1, 1}, {3}, DType::I32};
  EXPECT_THROW(run("gather_rows", {{{1, 3, 2}, count_to(6)}, beyond}), Error);
}

TEST(Select, FollowsCondition) {
  const Input a{{2}, {1, 2}};
  const Input b{{2}, {std::nan(""), 4}};
  EXPECT_EQ(run("select", {{{}, {1}}, a, b})[0].data, (Elements{1, 2}));
  EXPECT_EQ(run("select", {{{}, {0}}, b, a})[0].data, (Elements{1, 2}));
}

}  // namespace
}  // namespace trireme::testing
