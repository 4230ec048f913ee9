#include "trireme/flops.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Flops, AreCountedByPhase) {
  const FlopCount count = count_flops(parse_graph(R"(graph g {
    input %x: f32[8,16]
    parameter %w: f32[16,4]
    %y: f32[8,4] = einsum(%x, %w) equation="bi,ij->bj"
    %again: f32[8,4] = einsum(%x, %w) equation="bi,ij->bj" @recompute
    %z: f32[8,4] = relu(%again) @backward
    %dw: f32[16,4] = einsum(%x, %z) equation="bi,bj->ij" @backward
    %new: f32[16,4] = add(%w, %dw) @update
    update %w <- %new
  })"));
  const double product = 2 * 8 * 16 * 4;
  EXPECT_EQ(count.of(Phase::Forward).products, product);
  EXPECT_EQ(count.of(Phase::Recompute).causal_products, product);
  EXPECT_EQ(count.of(Phase::Backward).others, 32);
  EXPECT_EQ(count.of(Phase::Update).others, 64);
  EXPECT_EQ(count.model().products, 2 * product);
  EXPECT_EQ(count.hardware().products, 3 * product);
  EXPECT_EQ(count.hardware().others, 96);
}

/// Six tokens with two choices each; four experts have room for five each: 12 of 20 slots at most are in use.
TEST(Flops, ModelFlopsExcludeEmptySlots) {
  const FlopCount count = count_flops(parse_graph(R"(graph g {
    input %x: f32[1,6,8]
    input %slots: i32[1,6,2]
    input %gates: f32[1,6,2]
    parameter %up: f32[4,8,16]
    parameter %down: f32[4,16,8]
    %sent: f32[4,1,5,8] = expert_dispatch(%x, %slots) experts=4 capacity=5
    %h: f32[4,1,5,16] = einsum(%sent, %up) equation="egpc,ecf->egpf"
    %a: f32[4,1,5,16] = relu(%h)
    %y: f32[4,1,5,8] = einsum(%a, %down) equation="egpf,efc->egpc"
    %out: f32[1,6,8] = expert_combine(%y, %slots, %gates)
    %dy: f32[4,1,5,8], %dgates: f32[1,6,2] = expert_combine_backward(%out, %y, %slots, %gates) @backward
    %ddown: f32[4,16,8] = einsum(%a, %dy) equation="egpf,egpc->efc" @backward
    %more: f32[4,16,8] = einsum(%ddown, %down) equation="efc,efc->efc" @backward
    output more = %more
  })"));
  const double product = 2 * 4 * 5 * 8 * 16;
  const double whole = 2 * 4 * 16 * 8;
  EXPECT_EQ(count.hardware().products, 3 * product + whole);
  EXPECT_DOUBLE_EQ(count.model().products, 3 * product * 12 / 20 + whole);
}

/// Against counting pair by pair.
TEST(Flops, CausalAttentionCountsVisiblePairs) {
  for (const int queries : {1, 3, 8}) {
    for (const int keys : {1, 3, 8}) {
      for (int start = -9; start <= 9; ++start) {
        const FlopCount count = count_flops(parse_graph(fmt::format(
            R"(graph g {{
              input %q: f32[1,{0},1,1]
              input %k: f32[1,{1},1,1]
              %y: f32[1,{0},1,1], %lse: f32[1,1,{0}] = attention(%q, %k, %k) start=[{2}]
              output y = %y
            }})",
            queries, keys, start)));
        double seen = 0;
        for (int t = 0; t < queries; ++t) {
          seen += std::clamp(t + 1 + start, 0, keys);
        }
        EXPECT_NEAR(count.model().causal_products, 4 * seen, 1e-12)
            << queries << " " << keys << " " << start;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
