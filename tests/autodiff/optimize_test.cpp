// Passes as text: a small graph before and after.
#include "trireme/optimize.h"

#include <numeric>

#include <gtest/gtest.h>

#include "autodiff/layer_chain.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme::testing {
namespace {

TEST(RemoveDeadNodes, KeepsWhatOutputsAndUpdatesNeed) {
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

TEST(MergeEqualNodes, KeepsFirstOfEqualNodes) {
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

TEST(MergeEqualNodes, KeepsPhasesAndBlocksSeparate) {
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

TEST(FuseElementwise, FusesGroupIntoOneNode) {
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
TEST(FuseElementwise, SkipsNodesReadOutsideGroup) {
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
TEST(FuseElementwise, ContinuesPastEarlyGather) {
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

TEST(FuseElementwise, PreservesF64Results) {
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

TEST(Optimize, PreservesResults) {
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

/// What dloss needs moves before the loss; 5 classes become 128, and the weight's gradient loses the padding.
TEST(FuseClassifier, PadsClassesAndFusesLossWithGradient) {
  const Graph graph = parse_graph(R"(graph g {
  input %h: f32[4,8]
  input %targets: i32[4]
  parameter %w: f32[5,8]
  %logits: f32[4,5] = einsum(%h, %w) equation="tc,vc->tv"
  %top: f32[4] = reduce_max(%logits) axes=[-1]
  %sum: f32[4], %picked: f32[4] = cross_entropy_sums(%logits, %targets, %top)
  %each: f32[4] = cross_entropy(%sum, %picked, %top, %targets)
  %loss: f32[] = reduce_sum(%each) axes=[0]
  %one: f32[] = fill() value=1.0 @backward
  %deach: f32[4] = broadcast(%one) axes=[0] shape=[4] @backward
  %dsum: f32[4], %dpicked: f32[4] = cross_entropy_backward(%deach, %sum, %targets) @backward
  %dlogits: f32[4,5] = cross_entropy_sums_backward(%dsum, %dpicked, %logits, %targets, %top) @backward
  %dh: f32[4,8] = einsum(%dlogits, %w) equation="tv,vc->tc" @backward
  %dw: f32[5,8] = einsum(%h, %dlogits) equation="tc,tv->vc" @backward
  output loss = %loss
  output dh = %dh
  output dw = %dw
}
)");
  EXPECT_EQ(to_text(fuse_classifier(graph)), R"(graph g {
  input %h: f32[4,8]
  input %targets: i32[4]
  parameter %w: f32[5,8]
  %one: f32[] = fill() value=1.0 @backward
  %deach: f32[4] = broadcast(%one) shape=[4] axes=[0] @backward
  %pad: f32[128,8] = pad(%w) before=[0,0] after=[123,0]
  %logits: f32[4,128] = einsum(%h, %pad) equation="tc,vc->tv"
  %each: f32[4], %dlogits: f32[4,128] = classifier(%logits, %targets, %deach) classes=5
  %loss: f32[] = reduce_sum(%each) axes=[0]
  %dh: f32[4,8] = einsum(%dlogits, %pad) equation="tv,vc->tc" @backward
  %einsum: f32[128,8] = einsum(%h, %dlogits) equation="tc,tv->vc" @backward
  %dw: f32[5,8] = slice(%einsum) begin=[0,0] end=[5,8] @backward
  output loss = %loss
  output dh = %dh
  output dw = %dw
}
)");
}

/// A result that is needed elsewhere is not fused away.
TEST(FuseFollowers, FusesProductsWithTheirFollowers) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[4,8]
  input %dy: f32[4,8]
  parameter %w: f32[16,8]
  parameter %b: f32[16]
  parameter %v: f32[8,16]
  parameter %c: f32[8]
  %xw: f32[4,16] = einsum(%x, %w) equation="tc,fc->tf"
  %z: f32[4,16] = add(%xw, %b)
  %g: f32[4,16] = gelu(%z)
  %gv: f32[4,8] = einsum(%g, %v) equation="tf,cf->tc"
  %gvc: f32[4,8] = add(%gv, %c)
  %y: f32[4,8] = add(%x, %gvc)
  %dg: f32[4,16] = einsum(%dy, %v) equation="tc,cf->tf" @backward
  %dz: f32[4,16] = gelu_backward(%z, %dg) @backward
  %dxw: f32[4,8] = einsum(%dz, %w) equation="tf,fc->tc" @backward
  %dx: f32[4,8] = add(%dy, %dxw) @backward
  %kept: f32[4,8] = einsum(%dz, %w) equation="tf,fc->tc" @backward
  %both: f32[4,8] = add(%kept, %x) @backward
  output y = %y
  output dx = %dx
  output kept = %kept
  output both = %both
}
)");
  EXPECT_EQ(to_text(fuse_followers(graph, {.products = true})), R"(graph g {
  input %x: f32[4,8]
  input %dy: f32[4,8]
  parameter %w: f32[16,8]
  parameter %b: f32[16]
  parameter %v: f32[8,16]
  parameter %c: f32[8]
  %g: f32[4,16], %z: f32[4,16] = einsum_bias_gelu(%x, %w, %b) equation="tc,fc->tf"
  %y: f32[4,8] = einsum_bias_add(%g, %v, %c, %x) equation="tf,cf->tc"
  %dz: f32[4,16] = einsum_gelu_backward(%dy, %v, %z) equation="tc,cf->tf" @backward
  %dx: f32[4,8] = einsum_add(%dz, %w, %dy) equation="tf,fc->tc" @backward
  %kept: f32[4,8] = einsum(%dz, %w) equation="tf,fc->tc" @backward
  %both: f32[4,8] = add(%kept, %x) @backward
  output y = %y
  output dx = %dx
  output kept = %kept
  output both = %both
}
)");
  EXPECT_EQ(fuse_followers(graph, {}), graph);
}

/// Logits that something else reads stay as they are.
TEST(FuseClassifier, KeepsLogitsThatAreOutputs) {
  GraphBuilder builder(parse_graph(R"(graph g {
  input %h: f32[4,8]
  input %targets: i32[4]
  parameter %w: f32[5,8]
  %logits: f32[4,5] = einsum(%h, %w) equation="tc,vc->tv"
  %top: f32[4] = reduce_max(%logits) axes=[-1]
  %sum: f32[4], %picked: f32[4] = cross_entropy_sums(%logits, %targets, %top)
  %each: f32[4] = cross_entropy(%sum, %picked, %top, %targets)
  %loss: f32[] = reduce_sum(%each) axes=[0]
  %one: f32[] = fill() value=1.0 @backward
  %deach: f32[4] = broadcast(%one) axes=[0] shape=[4] @backward
  %dsum: f32[4], %dpicked: f32[4] = cross_entropy_backward(%deach, %sum, %targets) @backward
  %dlogits: f32[4,5] = cross_entropy_sums_backward(%dsum, %dpicked, %logits, %targets, %top) @backward
  %dh: f32[4,8] = einsum(%dlogits, %w) equation="tv,vc->tc" @backward
  %dw: f32[5,8] = einsum(%h, %dlogits) equation="tc,tv->vc" @backward
  output loss = %loss
  output dh = %dh
  output dw = %dw
}
)"));
  builder.output("logits", builder.graph().find("logits"));
  const Graph graph = builder.finish();
  EXPECT_EQ(fuse_classifier(graph), graph);
}

}  // namespace
}  // namespace trireme::testing
