#include "trireme/graph.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "graph/evaluate.h"
#include "trireme/error.h"
#include "trireme/op.h"

namespace trireme {
namespace {

constexpr std::string_view kMlp = R"(graph mlp {
  input %x: f32[8,16]
  parameter %w1: f32[16,32]
  parameter %b1: f32[32]
  state %seen: f32[]
  %einsum: f32[8,32] = einsum(%x, %w1) equation="bi,ij->bj" @block(0)
  %add: f32[8,32] = add(%einsum, %b1) @block(0)
  %relu: f32[8,32] = relu(%add) @block(0)
  %sum: f32[] = reduce_sum(%relu) axes=[0,1]
  %half: f32[] = scale(%sum) factor=0.5 @update
  update %seen <- %half
  output loss = %sum
}
)";

TEST(Graph, TextRoundTrips) {
  EXPECT_EQ(to_text(parse_graph(kMlp)), kMlp);
}

TEST(Graph, BuilderInfersTypes) {
  GraphBuilder builder("g");
  const ValueId x = builder.input("x", {DType::F32, {2, 3}});
  const ValueId w = builder.parameter("w", {DType::F32, {3, 4}});
  const ValueId y = builder.add1("einsum", {x, w}, {{"equation", std::string("ik,kj->ij")}});
  EXPECT_EQ(to_text(builder.type(y)), "f32[2,4]");
}

TEST(Graph, ErrorsNameOpAndTypes) {
  GraphBuilder builder("g");
  const ValueId x = builder.input("x", {DType::F32, {2, 3}});
  const ValueId w = builder.parameter("w", {DType::F32, {4, 4}});
  EXPECT_EQ(
      error_message(ErrorKind::Usage,
                    [&] {
                      builder.add1("einsum", {x, w}, {{"equation", std::string("ik,kj->ij")}});
                    }),
      "einsum(a: f32[2,3], b: f32[4,4]): 'k' is 3 in one and 4 in the other");
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { builder.add1("relue", {x}); }),
            "unknown op 'relue'; did you mean 'relu'?");
  EXPECT_EQ(error_message(ErrorKind::Usage,
                          [&] {
                            builder.add1("relu", {x, w});
                          }),
            "relu takes 1 inputs (x), not 2");
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { builder.add1("scale", {x}); }),
            "scale needs 'factor'");
  EXPECT_EQ(error_message(ErrorKind::Usage,
                          [&] {
                            builder.add1("relu", {x}, {{"speed", 1.0}});
                          }),
            "relu has no 'speed'; it has no attributes");
}

TEST(Graph, ParserErrorsNameLine) {
  const auto parse = [](std::string_view text) {
    return error_message(ErrorKind::Input, [&] { (void)parse_graph(text); });
  };
  EXPECT_EQ(parse("graph g {\n  input %x: f32[2\n}"),
            "graph, line 2: expected a type, as f32[2,3]");
  EXPECT_EQ(parse("graph g {\n  %y: f32[2] = relu(%x)\n}"),
            "graph, line 2: nothing above is called %x");
  EXPECT_EQ(parse("graph g {\n  input %x: f32[2]\n  %y: f32[3] = relu(%x)\n}"),
            "graph, line 3: %y is f32[3], but relu gives f32[2]");
  EXPECT_EQ(parse("graph g {\n  input %x: f32[2]\n"),
            "graph: the text ends before its closing '}'");
}

TEST(Graph, VerifierRejectsUpdatesOfInputs) {
  EXPECT_EQ(
      error_message(ErrorKind::Input,
                    [] { (void)parse_graph("graph g {\n input %x: f32[2]\n update %x <- %x\n}"); }),
      "graph g: %x is updated but is neither a parameter nor state");
}

TEST(Graph, EvaluatesWithReferenceKernels) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f32[1,2]
    parameter %w: f32[2,2]
    %y: f32[1,2] = einsum(%x, %w) equation="ik,kj->ij"
  })");
  Dense x{Shape{1, 2}};
  x.data = {1, 2};
  Dense w{Shape{2, 2}};
  w.data = {1, 10, 100, 1000};
  const std::vector<Dense> values = evaluate(graph, {{"x", x}, {"w", w}});
  EXPECT_EQ(values[graph.find("y").index].data, (std::vector<double>{201, 2010}));
}

}  // namespace
}  // namespace trireme
