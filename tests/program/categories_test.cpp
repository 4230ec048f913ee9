// Memory categories of values that ranks communicate.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "trireme/program.h"

namespace trireme {
namespace {

using Names = std::map<std::string, std::string>;

/// By name, of these values.
Names categories_of(const Program& program, const std::vector<std::string>& names) {
  Names found;
  for (const Buffer& buffer : program.buffers) {
    if (std::ranges::find(names, buffer.name) != names.end()) {
      found[buffer.name] = to_text(buffer.category);
    }
  }
  return found;
}

std::int64_t at_peak(const Program& program, Category category) {
  return memory_use(program).at_peak.at(static_cast<std::size_t>(category)).count;
}

TEST(Categories, GatheredParametersAreCommunication) {
  const Program program = make_program(parse_graph(R"(graph g {
    input %x: f32[4,8]
    parameter %w: f32[4,8]
    %whole: f32[8,8], %scratch: u8[0] = all_gather(%w) group="data" ranks=2 index=0 size=8
    %flat: f32[64] = reshape(%whole) shape=[64]
    %square: f32[8,8] = reshape(%flat) shape=[8,8]
    %y: f32[4,8] = einsum(%x, %square) equation="ik,kj->ij"
    output y = %y
  })"));
  EXPECT_EQ(categories_of(program, {"w", "whole", "flat", "y"}), (Names{{"w", "parameter"},
                                                                        {"whole", "communication"},
                                                                        {"flat", "communication"},
                                                                        {"y", "activation"}}));
  EXPECT_EQ(at_peak(program, Category::Parameter), 4 * 32);
  EXPECT_EQ(at_peak(program, Category::Communication), 4 * 64);
}

TEST(Categories, ReceivedBuffersAreCommunicationAndSentBuffersAreNot) {
  const Program program = make_program(parse_graph(R"(graph g {
    %r: f32[4] = receive() from=0 tag=5 shape=[4]
    %y: f32[4] = relu(%r)
    %s: u8[0] = send(%y) to=2 tag=6
    %half: f32[2] = slice(%y) begin=[0] end=[2]
    %t: u8[0] = send(%half) to=2 tag=7
  })"));
  EXPECT_EQ(categories_of(program, {"r", "y", "half"}),
            (Names{{"r", "communication"}, {"y", "activation"}, {"half", "activation"}}));
}

// Two gradients in a bucket, a sharded one, and one that is a sum of several terms.
TEST(Categories, GradientsStayGradients) {
  const Program program = make_program(parse_graph(R"(graph g {
    parameter %a: f32[2,2]
    parameter %b: f32[4]
    parameter %c: f32[2]
    parameter %d: f32[4]
    %da: f32[2,2] = scale(%a) factor=2.0 @backward
    %db: f32[4] = scale(%b) factor=2.0 @backward
    %dc: f32[4] = scale(%b) factor=3.0 @backward
    %d1: f32[4] = scale(%d) factor=2.0 @backward
    %d2: f32[4] = scale(%d) factor=3.0 @backward
    %dd: f32[4] = add(%d1, %d2) @backward
    %flat: f32[4] = reshape(%da) shape=[4] @update
    %bucket: f32[8] = concat(%flat, %db) axis=0 @update
    %sum: f32[8] = all_reduce(%bucket) group="data" ranks=2 @update
    %a_part: f32[4] = slice(%sum) begin=[0] end=[4] @update
    %a_sum: f32[2,2] = reshape(%a_part) shape=[2,2] @update
    %b_sum: f32[4] = slice(%sum) begin=[4] end=[8] @update
    %c_sum: f32[2], %scratch: u8[0] = reduce_scatter(%dc) group="data" ranks=2 index=0 @update
    %new_a: f32[2,2] = subtract(%a, %a_sum) @update
    %new_b: f32[4] = subtract(%b, %b_sum) @update
    %new_c: f32[2] = subtract(%c, %c_sum) @update
    %new_d: f32[4] = subtract(%d, %dd) @update
    update %a <- %new_a
    update %b <- %new_b
    update %c <- %new_c
    update %d <- %new_d
  })"));
  const std::vector<std::string> gradients{"da",   "db",     "dc",    "d1",    "d2",   "dd",
                                           "flat", "a_part", "a_sum", "b_sum", "c_sum"};
  for (const auto& [name, category] : categories_of(program, gradients)) {
    EXPECT_EQ(category, "gradient") << name;
  }
  EXPECT_EQ(categories_of(program, {"bucket", "sum"}),
            (Names{{"bucket", "communication"}, {"sum", "communication"}}));
}

TEST(Categories, ReducedActivationsStayActivations) {
  const Program program = make_program(parse_graph(R"(graph g {
    input %x: f32[4]
    %y: f32[4] = relu(%x)
    %sum: f32[4] = all_reduce(%y) group="tensor" ranks=2
    %part: f32[2], %scratch: u8[0] = reduce_scatter(%sum) group="tensor" ranks=2 index=0
    %whole: f32[4], %other: u8[0] = all_gather(%part) group="tensor" ranks=2 index=0 size=4
    output whole = %whole
  })"));
  EXPECT_EQ(categories_of(program, {"y", "sum", "part", "whole"}),
            (Names{{"y", "activation"},
                   {"sum", "activation"},
                   {"part", "activation"},
                   {"whole", "communication"}}));
}

// An all-gather whose result is the parameter's next value is written in its place.
TEST(Categories, UpdateResultsCountAsParameters) {
  const Program program = make_program(parse_graph(R"(graph g {
    parameter %w: f32[8]
    state %s: f32[4]
    %new: f32[4] = scale(%s) factor=0.5 @update
    %whole: f32[8], %scratch: u8[0] = all_gather(%new) group="data" ranks=2 index=0 size=8 @update
    update %w <- %whole
    update %s <- %new
  })"));
  EXPECT_EQ(at_peak(program, Category::Parameter), 32);
  EXPECT_EQ(at_peak(program, Category::Communication), 0);
}

}  // namespace
}  // namespace trireme
