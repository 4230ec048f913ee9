// Passes by text: a small graph before and after.
#include "trireme/optimize.h"

#include <gtest/gtest.h>

#include "autodiff/layer_chain.h"
#include "trireme/recompute.h"

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

TEST(Optimize, ChangesNoResult) {
  const Chain chain = make_chain({.widths = {6, 6, 6, 6, 6},
                                  .between = {"layer_norm", "silu"},
                                  .products_per_block = 2,
                                  .residual = true});
  const Graph graph = recompute(chain.graph, {.mode = RecomputeMode::Full});
  const Graph smaller = remove_dead_nodes(merge_equal_nodes(graph));
  smaller.verify();
  const auto expected = results_of(graph, chain.leaves);
  for (const auto& [name, result] : results_of(smaller, chain.leaves)) {
    EXPECT_EQ(result.data, expected.at(name).data) << name;
  }
  EXPECT_EQ(kept_bytes(smaller), kept_bytes(graph));
}

}  // namespace
}  // namespace trireme::testing
