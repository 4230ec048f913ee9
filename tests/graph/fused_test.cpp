#include "graph/fused.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"

namespace trireme {
namespace {

void add_fused(const std::string& program) {
  GraphBuilder builder("g");
  const ValueId x = builder.input("x", {DType::F32, {2, 3}});
  const ValueId b = builder.input("b", {DType::F32, {3}});
  (void)builder.add("fused", {x, b}, {{"program", program}});
}

std::string program_error(const std::string& program) {
  const std::string text = error_message(ErrorKind::Usage, [&] { add_fused(program); });
  return text.substr(text.find("): ") + 3);
}

TEST(Fused, RejectsInvalidPrograms) {
  EXPECT_NO_THROW(add_fused("add(%0,%1); relu(t0)"));
  for (const std::string wrong :
       {"", "relu", "relu()", "relu(%2)", "relu(t0)", "relu(x)", "add(%0)", "einsum(%0,%1)",
        "fused(%0)", "scale(%0)", "scale(%0) factor=x", "relu(%0) factor=1", "relu(%-1)"}) {
    EXPECT_EQ(program_error(wrong), "invalid step '" + wrong + "'; write it as add(%0,t0)");
  }
  EXPECT_EQ(program_error("relu(%1)"), "every step must give the type of the first input");
}

TEST(Fused, ProgramTextRoundTrips) {
  const std::string program = "add(%0,%1); scale(t0) factor=0.1; relu_backward(t1,t0)";
  GraphBuilder builder("g");
  const ValueId x = builder.input("x", {DType::F32, {2}});
  (void)builder.add1("fused", {x, x}, {{"program", program}});
  const Graph graph = builder.finish();
  EXPECT_EQ(to_text(parse_program(signature_of(graph, graph.nodes()[0]))), program);
}

}  // namespace
}  // namespace trireme
