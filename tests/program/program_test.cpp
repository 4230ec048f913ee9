#include "trireme/program.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/error.h"
#include "trireme/program_layout.h"

namespace trireme {
namespace {

/// A chain x -> relu -> … whose steps need at most two buffers.
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

TEST(Program, ReusesMemoryOfDeadValues) {
  const Program program = make_program(chain(10));
  require_valid(program);
  EXPECT_EQ(program.arena.count, 4 * 64 * 64 * 4);  // x, w, and two that take turns
}

TEST(Program, UpdatesWriteToTheirTargets) {
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
  require_valid(program);
  const Instruction& last = program.instructions.back();
  EXPECT_EQ(last.op, program.instructions[program.instructions.size() - 2].op);
  EXPECT_EQ(memory_use(program).at_peak[static_cast<std::size_t>(Category::Optimizer)].count, 16);
}

TEST(Program, VerifierFindsOverwrittenBuffers) {
  Program program = make_program(chain(3));
  for (Buffer& buffer : program.buffers) {
    buffer.offset = 0;
  }
  EXPECT_THROW(require_valid(program), Error);
}

/// What require_valid says.
std::string problem_of(const Program& program) {
  try {
    require_valid(program);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Program, ProtectsBuffersOfPendingExchanges) {
  Program program = make_program(parse_graph(R"(graph g {
    %r: f32[4] = receive() from=0 tag=5 shape=[4]
    %y: f32[4] = relu(%r)
    %z: f32[4] = relu(%y)
  })"));
  EXPECT_EQ(problem_of(program), "");
  program.instructions[0].done_before = 2;
  EXPECT_EQ(problem_of(program),
            "program g: instruction 1 (relu) reads %r where %r of instruction 0 (receive) is, "
            "which need not be done before instruction 2");
  program.instructions[0].done_before = 0;
  EXPECT_EQ(problem_of(program),
            "program g: instruction 0 (receive) must be done before instruction 0, which is not "
            "after it");

  // The input of a send may be read meanwhile, but not overwritten.
  program = make_program(parse_graph(R"(graph g {
    input %x: f32[4]
    %y: f32[4] = relu(%x)
    %s: u8[0] = send(%y) to=1 tag=5
    %z: f32[4] = relu(%y)
    %v: f32[4] = relu(%z)
  })"));
  EXPECT_EQ(problem_of(program), "");
  const auto offset = [&](std::size_t i) -> std::int64_t& {
    return program.buffers[static_cast<std::size_t>(program.instructions[i].outputs[0].index)]
        .offset;
  };
  offset(3) = offset(0);
  EXPECT_EQ(problem_of(program),
            "program g: instruction 3 (relu) writes %v where %y of instruction 1 (send) is, which "
            "need not be done before instruction 4");
}

TEST(Program, InfersTypesFromOps) {
  Program program =
      make_program(parse_graph("graph g {\n  %r: f32[4] = receive() from=0 tag=5 shape=[4]\n}\n"));
  program.buffers[static_cast<std::size_t>(program.instructions[0].outputs[0].index)].type.dtype =
      DType::I32;
  EXPECT_EQ(problem_of(program),
            "program g: instruction 0 (receive): %r is i32[4]; the op makes f32[4]");
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
    require_valid(make_program(builder.finish()));
  }
}

TEST(Program, AlignsBuffersForDevice) {
  const Program program = make_program(parse_graph(R"(graph g {
    input %x: f32[5,17]
    parameter %w: f32[17,3]
    parameter %v: f32[3,19]
    %a: f32[5,3] = einsum(%x, %w) equation="ik,kj->ij"
    %b: f32[5,19] = einsum(%a, %v) equation="ik,kj->ij"
    %c: f32[5,19] = relu(%b)
    %d: f32[19,19] = einsum(%b, %c) equation="ki,kj->ij"
    %v2: f32[3,19] = scale(%v) factor=0.5
    output d = %d
    update %v <- %v2
  })"));
  for (const Bytes alignment : {Bytes{64}, Bytes{256}, Bytes{4096}}) {
    const Program aligned = aligned_to(program, alignment);
    EXPECT_EQ(problems(aligned), std::vector<std::string>());
    EXPECT_GE(aligned.arena, program.arena);
    for (const Buffer& buffer : aligned.buffers) {
      EXPECT_EQ(buffer.offset % alignment.count, 0) << buffer.name;
    }
  }
  EXPECT_EQ(to_text(aligned_to(program, {64})), to_text(program));
}

}  // namespace
}  // namespace trireme
