// Passes as text: a small graph before and after.
#include "trireme/optimize.h"

#include <numeric>

#include <gtest/gtest.h>

#include "autodiff/layer_chain.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme::testing {
namespace {

TEST(RemoveDeadNodes, LeavesWhatOutputsAndUpdatesNeed) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,3]
  input %unused: f32[5]
  parameter %gamma: f32[3]
  parameter %beta: f32[3]
  state %seen: f32[2,3]
  %y: f32[2,3], %mean: f32[2], %rstd: f32[2] = layer_norm(%x, %gamma, %beta)
  %dead: f32[2,3] = relu(%y)
  %deader: f32[2,3] = exp(%dead)
  %square: f32[2] = square(%mean) @block(2)
  %new: f32[2,3] = add(%seen, %x) @update
  update %seen <- %new
  output spread = %square
}
)");
  EXPECT_EQ(to_text(remove_dead_nodes(graph)), R"(graph g {
  input %x: f32[2,3]
  input %unused: f32[5]
  parameter %gamma: f32[3]
  parameter %beta: f32[3]
  state %seen: f32[2,3]
  %y: f32[2,3], %mean: f32[2], %rstd: f32[2] = layer_norm(%x, %gamma, %beta)
  %square: f32[2] = square(%mean) @block(2)
  %new: f32[2,3] = add(%seen, %x) @update
  update %seen <- %new
  output spread = %square
}
)");
}

TEST(MergeEqualNodes, LeavesTheFirstOfEqualOnes) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2]
  %a: f32[2] = exp(%x)
  %b: f32[2] = exp(%x)
  %a2: f32[2] = scale(%a) factor=2.0
  %b2: f32[2] = scale(%b) factor=2.0
  %b3: f32[2] = scale(%b) factor=3.0
  %other: f32[2] = add(%a2, %b3)
  %order: f32[2] = add(%b3, %b2)
  output first = %b2
  output second = %other
  output third = %order
}
)");
  EXPECT_EQ(to_text(merge_equal_nodes(graph)), R"(graph g {
  input %x: f32[2]
  %a: f32[2] = exp(%x)
  %a2: f32[2] = scale(%a) factor=2.0
  %b3: f32[2] = scale(%a) factor=3.0
  %other: f32[2] = add(%a2, %b3)
  %order: f32[2] = add(%b3, %a2)
  output first = %a2
  output second = %other
  output third = %order
}
)");
}

TEST(MergeEqualNodes, LeavesPhasesAndBlocksApart) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2]
  %a: f32[2] = exp(%x) @block(0)
  %b: f32[2] = exp(%x) @block(1)
  %again: f32[2] = exp(%x) @recompute @block(0)
  %d: f32[2] = add(%again, %b) @backward @block(0)
  output a = %a
  output d = %d
}
)");
  EXPECT_EQ(merge_equal_nodes(graph), graph);
}

TEST(FuseElementwise, MakesOneNodeOfAGroup) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,3]
  parameter %w: f32[3,3]
  parameter %bias: f32[3]
  %a: f32[2,3] = einsum(%x, %w) equation="bi,ij->bj"
  %b: f32[2,3] = add(%a, %bias)
  %c: f32[2,3] = gelu(%b)
  %d: f32[2,3] = tanh(%b)
  %e: f32[2,3] = multiply(%c, %d)
  %f: f32[2,3] = add(%e, %x)
  %g: f32[2,3] = einsum(%f, %w) equation="bi,ij->bj"
  %h: f32[2,3] = scale(%f) factor=0.5 @block(1)
  %i: f32[2,3] = subtract(%h, %g) @block(1)
  output i = %i
}
)");
  EXPECT_EQ(to_text(fuse_elementwise(graph)), R"text(graph g {
  input %x: f32[2,3]
  parameter %w: f32[3,3]
  parameter %bias: f32[3]
  %a: f32[2,3] = einsum(%x, %w) equation="bi,ij->bj"
  %f: f32[2,3] = fused(%a, %x, %bias) program="add(%0,%2); gelu(t0); tanh(t0); multiply(t1,t2); add(t3,%1)"
  %g: f32[2,3] = einsum(%f, %w) equation="bi,ij->bj"
  %i: f32[2,3] = fused(%f, %g) program="scale(%0) factor=0.5; subtract(t0,%1)" @block(1)
  output i = %i
}
)text");
}

// %b is read by the backward, %d is an output, %s has another shape, %n is in another block.
TEST(FuseElementwise, LeavesAloneWhatIsReadFromOutside) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,3]
  input %s: f32[]
  %b: f32[2,3] = exp(%x)
  %c: f32[2,3] = relu(%b)
  %d: f32[2,3] = tanh(%c)
  %e: f32[2,3] = square(%d)
  %t: f32[] = exp(%s)
  %f: f32[2,3] = multiply(%e, %t)
  %n: f32[2,3] = exp(%f) @block(1)
  %back: f32[2,3] = relu_backward(%b, %x) @backward
  output d = %d
  output n = %n
  output back = %back
}
)");
  EXPECT_EQ(to_text(fuse_elementwise(graph)), R"text(graph g {
  input %x: f32[2,3]
  input %s: f32[]
  %b: f32[2,3] = exp(%x)
  %d: f32[2,3] = fused(%b) program="relu(%0); tanh(t0)"
  %t: f32[] = exp(%s)
  %f: f32[2,3] = fused(%d, %t) program="square(%0); multiply(t0,%1)"
  %n: f32[2,3] = exp(%f) @block(1)
  %back: f32[2,3] = relu_backward(%b, %x) @backward
  output d = %d
  output n = %n
  output back = %back
}
)text");
}

// The gather is for block 1; it starts while block 0 computes, and does not separate its nodes.
TEST(FuseElementwise, GoesOnPastAGatherThatIsBegunEarly) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,3]
  parameter %w: f32[1,3]
  %a: f32[2,3] = exp(%x) @block(0)
  %all: f32[2,3], %scratch: u8[0] = all_gather(%w) group="data" ranks=2 index=0 size=2 @block(1)
  %b: f32[2,3] = relu(%a) @block(0)
  %c: f32[2,3] = add(%b, %all) @block(1)
  output c = %c
}
)");
  EXPECT_EQ(to_text(fuse_elementwise(graph)), R"text(graph g {
  input %x: f32[2,3]
  parameter %w: f32[1,3]
  %all: f32[2,3], %scratch: u8[0] = all_gather(%w) group="data" ranks=2 index=0 size=2 @block(1)
  %b: f32[2,3] = fused(%x) program="exp(%0); relu(t0)" @block(0)
  %c: f32[2,3] = add(%b, %all) @block(1)
  output c = %c
}
)text");
}

TEST(FuseElementwise, ChangesNoResultInF64) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f64[4,3]
    parameter %w1: f64[3]
    parameter %w2: f64[3]
    %a: f64[4,3] = multiply(%x, %w1) @block(0)
    %b: f64[4,3] = scale(%a) factor=0.3 @block(0)
    %c: f64[4,3] = tanh(%b) @block(0)
    %d: f64[4,3] = divide(%c, %w2) @block(1)
    %e: f64[4,3] = gelu(%d) @block(1)
    %loss: f64[] = reduce_sum(%e) axes=[0,1]
    output loss = %loss
  })");
  const Graph trained = recompute(make_training_graph(graph), {.mode = RecomputeMode::Full});
  const Graph fused = fuse_elementwise(trained);
  require_valid(fused);
  EXPECT_LT(fused.nodes().size() + 4, trained.nodes().size());
  Leaves leaves;
  for (const Value& value : trained.values()) {
    if (value.origin != Origin::Node) {
      leaves[value.name] = Dense(value.type.shape);
      std::iota(leaves[value.name].data.begin(), leaves[value.name].data.end(), 1);
    }
  }
  const auto expected = results_of(trained, leaves);
  for (const auto& [name, result] : results_of(fused, leaves)) {
    EXPECT_EQ(result.data, expected.at(name).data) << name;
  }
}

TEST(Optimize, ChangesNoResult) {
  const Chain chain = make_chain({.widths = {6, 6, 6, 6, 6},
                                  .between = {"layer_norm", "silu"},
                                  .products_per_block = 2,
                                  .residual = true});
  const Graph graph = recompute(chain.graph, {.mode = RecomputeMode::Full});
  const Graph smaller = remove_dead_nodes(merge_equal_nodes(graph));
  require_valid(smaller);
  const auto expected = results_of(graph, chain.leaves);
  for (const auto& [name, result] : results_of(smaller, chain.leaves)) {
    EXPECT_EQ(result.data, expected.at(name).data) << name;
  }
  EXPECT_EQ(kept_bytes(smaller), kept_bytes(graph));
}

}  // namespace
}  // namespace trireme::testing
