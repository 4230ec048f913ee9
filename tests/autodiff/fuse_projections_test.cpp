// The three projections of an attention become one, forward, recomputed and backward; or nothing changes.
#include <string>

#include <gtest/gtest.h>

#include "trireme/op.h"
#include "trireme/optimize.h"

namespace trireme::testing {
namespace {

constexpr const char* kBiased = R"(graph g {
  input %x: f32[2,5,12]
  input %dy: f32[2,5,4,3]
  parameter %wq: f32[12,4,3]
  parameter %bq: f32[4,3]
  parameter %wk: f32[12,4,3]
  parameter %bk: f32[4,3]
  parameter %wv: f32[12,4,3]
  parameter %bv: f32[4,3]
  %xq: f32[2,5,4,3] = einsum(%x, %wq) equation="btc,chd->bthd" @block(0)
  %q: f32[2,5,4,3] = add(%xq, %bq) @block(0)
  %xk: f32[2,5,4,3] = einsum(%x, %wk) equation="btc,chd->bthd" @block(0)
  %k: f32[2,5,4,3] = add(%xk, %bk) @block(0)
  %xv: f32[2,5,4,3] = einsum(%x, %wv) equation="btc,chd->bthd" @block(0)
  %v: f32[2,5,4,3] = add(%xv, %bv) @block(0)
  %y: f32[2,5,4,3], %lse: f32[2,4,5] = attention(%q, %k, %v) @block(0)
  %dq: f32[2,5,4,3], %dk: f32[2,5,4,3], %dv: f32[2,5,4,3] = attention_backward(%dy, %q, %k, %v, %y, %lse) @backward @block(0)
  %dbv: f32[4,3] = reduce_sum(%dv) axes=[0,1] @backward @block(0)
  %dxv: f32[2,5,12] = einsum(%dv, %wv) equation="bthd,chd->btc" @backward @block(0)
  %dwv: f32[12,4,3] = einsum(%x, %dv) equation="btc,bthd->chd" @backward @block(0)
  %dbk: f32[4,3] = reduce_sum(%dk) axes=[0,1] @backward @block(0)
  %dxk: f32[2,5,12] = einsum(%dk, %wk) equation="bthd,chd->btc" @backward @block(0)
  %dwk: f32[12,4,3] = einsum(%x, %dk) equation="btc,bthd->chd" @backward @block(0)
  %dxvk: f32[2,5,12] = add(%dxv, %dxk) @backward @block(0)
  %dbq: f32[4,3] = reduce_sum(%dq) axes=[0,1] @backward @block(0)
  %dxq: f32[2,5,12] = einsum(%dq, %wq) equation="bthd,chd->btc" @backward @block(0)
  %dwq: f32[12,4,3] = einsum(%x, %dq) equation="btc,bthd->chd" @backward @block(0)
  %dx: f32[2,5,12] = add(%dxvk, %dxq) @backward @block(0)
  output y = %y
  output dx = %dx
  output dwq = %dwq
  output dwk = %dwk
  output dwv = %dwv
  output dbq = %dbq
  output dbk = %dbk
  output dbv = %dbv
}
)";

TEST(FuseProjections, MergesEachKindIntoOneProduct) {
  EXPECT_EQ(to_text(fuse_projections(parse_graph(kBiased))), R"(graph g {
  input %x: f32[2,5,12]
  input %dy: f32[2,5,4,3]
  parameter %wq: f32[12,4,3]
  parameter %bq: f32[4,3]
  parameter %wk: f32[12,4,3]
  parameter %bk: f32[4,3]
  parameter %wv: f32[12,4,3]
  parameter %bv: f32[4,3]
  %concat: f32[12,12,3] = concat(%wq, %wk, %wv) axis=1 @block(0)
  %xq.packed: f32[2,5,12,3] = einsum(%x, %concat) equation="btc,chd->bthd" @block(0)
  %concat.1: f32[12,3] = concat(%bq, %bk, %bv) axis=0 @block(0)
  %q.packed: f32[2,5,12,3] = add(%xq.packed, %concat.1) @block(0)
  %y: f32[2,5,4,3], %lse: f32[2,4,5] = attention_packed(%q.packed) heads=4 @block(0)
  %dq.packed: f32[2,5,12,3] = attention_packed_backward(%dy, %q.packed, %y, %lse) heads=4 @backward @block(0)
  %dbq.packed: f32[12,3] = reduce_sum(%dq.packed) axes=[0,1] @backward @block(0)
  %dbq: f32[4,3] = slice(%dbq.packed) begin=[0,0] end=[4,3] @backward @block(0)
  %dbk: f32[4,3] = slice(%dbq.packed) begin=[4,0] end=[8,3] @backward @block(0)
  %dbv: f32[4,3] = slice(%dbq.packed) begin=[8,0] end=[12,3] @backward @block(0)
  %dwq.packed: f32[12,12,3] = einsum(%x, %dq.packed) equation="btc,bthd->chd" @backward @block(0)
  %dwq: f32[12,4,3] = slice(%dwq.packed) begin=[0,0,0] end=[12,4,3] @backward @block(0)
  %dwk: f32[12,4,3] = slice(%dwq.packed) begin=[0,4,0] end=[12,8,3] @backward @block(0)
  %dwv: f32[12,4,3] = slice(%dwq.packed) begin=[0,8,0] end=[12,12,3] @backward @block(0)
  %concat.2: f32[12,12,3] = concat(%wq, %wk, %wv) axis=1 @backward @block(0)
  %dx: f32[2,5,12] = einsum(%dq.packed, %concat.2) equation="bthd,chd->btc" @backward @block(0)
  output y = %y
  output dx = %dx
  output dwq = %dwq
  output dwk = %dwk
  output dwv = %dwv
  output dbq = %dbq
  output dbk = %dbk
  output dbv = %dbv
}
)");
}

// Grouped heads; only the rotations and the attention are recomputed. The gradient of v is read before those of q and k
// are rotated.
TEST(FuseProjections, PacksRecomputedProjections) {
  const Graph graph = parse_graph(R"(graph g {
  input %x: f32[2,5,12]
  input %dy: f32[2,5,4,2]
  parameter %wq: f32[4,2,12]
  parameter %wk: f32[1,2,12]
  parameter %wv: f32[1,2,12]
  %xq: f32[2,5,4,2] = einsum(%x, %wq) equation="btc,hdc->bthd"
  %xk: f32[2,5,1,2] = einsum(%x, %wk) equation="btc,hdc->bthd"
  %v: f32[2,5,1,2] = einsum(%x, %wv) equation="btc,hdc->bthd"
  %q: f32[2,5,4,2] = rope(%xq)
  %k: f32[2,5,1,2] = rope(%xk)
  %y: f32[2,5,4,2], %lse: f32[2,4,5] = attention(%q, %k, %v)
  %q2: f32[2,5,4,2] = rope(%xq) @recompute
  %k2: f32[2,5,1,2] = rope(%xk) @recompute
  %y2: f32[2,5,4,2], %lse2: f32[2,4,5] = attention(%q2, %k2, %v) @recompute
  %dq: f32[2,5,4,2], %dk: f32[2,5,1,2], %dv: f32[2,5,1,2] = attention_backward(%dy, %q2, %k2, %v, %y2, %lse2) @backward
  %dwv: f32[1,2,12] = einsum(%x, %dv) equation="btc,bthd->hdc" @backward
  %dxk: f32[2,5,1,2] = rope(%dk) inverse=1 @backward
  %dwk: f32[1,2,12] = einsum(%x, %dxk) equation="btc,bthd->hdc" @backward
  %dxq: f32[2,5,4,2] = rope(%dq) inverse=1 @backward
  %dwq: f32[4,2,12] = einsum(%x, %dxq) equation="btc,bthd->hdc" @backward
  output y = %y
  output dwq = %dwq
  output dwk = %dwk
  output dwv = %dwv
}
)");
  EXPECT_EQ(to_text(fuse_projections(graph)), R"(graph g {
  input %x: f32[2,5,12]
  input %dy: f32[2,5,4,2]
  parameter %wq: f32[4,2,12]
  parameter %wk: f32[1,2,12]
  parameter %wv: f32[1,2,12]
  %concat: f32[6,2,12] = concat(%wq, %wk, %wv) axis=0
  %xq.packed: f32[2,5,6,2] = einsum(%x, %concat) equation="btc,hdc->bthd"
  %q.packed: f32[2,5,6,2] = rope(%xq.packed) heads=5
  %y: f32[2,5,4,2], %lse: f32[2,4,5] = attention_packed(%q.packed) heads=4
  %q2.packed: f32[2,5,6,2] = rope(%xq.packed) heads=5 @recompute
  %y2: f32[2,5,4,2], %lse2: f32[2,4,5] = attention_packed(%q2.packed) heads=4 @recompute
  %dq.packed: f32[2,5,6,2] = attention_packed_backward(%dy, %q2.packed, %y2, %lse2) heads=4 @backward
  %dxq.packed: f32[2,5,6,2] = rope(%dq.packed) inverse=1 heads=5 @backward
  %dwq.packed: f32[6,2,12] = einsum(%x, %dxq.packed) equation="btc,bthd->hdc" @backward
  %dwq: f32[4,2,12] = slice(%dwq.packed) begin=[0,0,0] end=[4,2,12] @backward
  %dwk: f32[1,2,12] = slice(%dwq.packed) begin=[4,0,0] end=[5,2,12] @backward
  %dwv: f32[1,2,12] = slice(%dwq.packed) begin=[5,0,0] end=[6,2,12] @backward
  output y = %y
  output dwq = %dwq
  output dwk = %dwk
  output dwv = %dwv
}
)");
}

/// FLOPs of products, without those that a mask makes unnecessary and those that repeat others.
double needed_flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    const Work work = work_of(graph, node);
    sum += work.products * (1 - work.causal) * (1 - work.repeated);
  }
  return sum;
}

TEST(FuseProjections, KeepsModelFlops) {
  const Graph graph = parse_graph(kBiased);
  EXPECT_DOUBLE_EQ(needed_flops(fuse_projections(graph)), needed_flops(graph));
}

/// The graph with one text replaced.
Graph biased_with(std::string_view old, std::string_view by) {
  std::string text = kBiased;
  text.replace(text.find(old), old.size(), by);
  return parse_graph(text);
}

TEST(FuseProjections, SkipsProjectionsThatDoNotMatch) {
  const std::string_view no_more = "  output y = %y\n";
  for (const Graph& graph : {
           biased_with("%xv: f32[2,5,4,3] = einsum(%x,",
                       "%z: f32[2,5,12] = exp(%x) @block(0)\n  %xv: f32[2,5,4,3] = einsum(%z,"),
           biased_with("add(%xk, %bk)", "subtract(%xk, %bk)"),
           biased_with(no_more, "  output y = %y\n  output q = %q\n"),
           biased_with(no_more, "  output y = %y\n  output part = %dxv\n"),
           biased_with(no_more, "  output y = %y\n  output sum = %dxvk\n"),
           biased_with("  output y",
                       "  %more: f32[2,5,4,3] = exp(%dv)\n  output m = %more\n  output y"),
           biased_with("  output y",
                       "  %more: f32[2,5,4,3] = exp(%k)\n  output m = %more\n  output y"),
           biased_with("attention(%q, %k, %v)", "attention(%k, %q, %v)"),
           biased_with("(%dy, %q, %k, %v, %y, %lse)", "(%dy, %q, %k, %k, %y, %lse)"),
       }) {
    require_valid(graph);
    EXPECT_EQ(fuse_projections(graph), graph) << to_text(graph);
  }
}

}  // namespace
}  // namespace trireme::testing
