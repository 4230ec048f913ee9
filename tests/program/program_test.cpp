#include "trireme/program.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {
namespace {

/// A chain x -> relu -> … whose steps need two buffers at most.
Graph chain(int length) {
  GraphBuilder builder("chain");
  ValueId x = builder.input("x", {DType::F32, {64, 64}});
  const ValueId w = builder.parameter("w", {DType::F32, {64, 64}});
  for (int i = 0; i < length; ++i) {
    x = builder.add1("einsum", {x, w}, {{"equation", std::string("ik,kj->ij")}});
  }
  builder.output("y", x);
  return builder.finish();
}

TEST(Program, ReusesMemoryOfWhatIsNoLongerNeeded) {
  const Program program = make_program(chain(10));
  program.verify();
  EXPECT_EQ(program.arena.count, 4 * 64 * 64 * 4);  // x, w, and two that take turns
}

TEST(Program, UpdatesEndInTheirTargets) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f32[4]
    parameter %w: f32[4]
    state %s: f32[4]
    %a: f32[4] = add(%w, %x)
    %b: f32[4] = scale(%w) factor=2.0
    update %w <- %a
    update %s <- %w
    output b = %b
  })");
  const Program program = make_program(graph);
  program.verify();
  const Instruction& last = program.instructions.back();
  EXPECT_EQ(last.op, program.instructions[program.instructions.size() - 2].op);
  EXPECT_EQ(memory_use(program).at_peak[static_cast<std::size_t>(Category::Optimizer)].count, 16);
}

TEST(Program, VerifierFindsOverwrittenBuffers) {
  Program program = make_program(chain(3));
  for (Buffer& buffer : program.buffers) {
    buffer.offset = 0;
  }
  EXPECT_THROW(program.verify(), Error);
}

/// Random graphs: whatever the order of uses, nothing is overwritten while it is needed.
TEST(Program, PlansRandomGraphsWithoutOverlap) {
  std::mt19937 generator(7);
  for (int round = 0; round < 50; ++round) {
    GraphBuilder builder("random");
    std::vector<ValueId> values{builder.input("x", {DType::F32, {8}}),
                                builder.parameter("w", {DType::F32, {8}})};
    const auto any = [&] { return values[generator() % values.size()]; };
    for (int i = 0; i < 40; ++i) {
      switch (generator() % 3) {
        case 0:
          values.push_back(builder.add1("relu", {any()}));
          break;
        case 1:
          values.push_back(builder.add1("add", {any(), any()}));
          break;
        default:
          values.push_back(builder.add1("scale", {any()}, {{"factor", 2.0}}));
      }
    }
    builder.output("y", values.back());
    builder.update(values[1], any());
    make_program(builder.finish()).verify();
  }
}

}  // namespace
}  // namespace trireme
