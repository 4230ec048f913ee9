#include "trireme/flops.h"

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

}  // namespace
}  // namespace trireme
