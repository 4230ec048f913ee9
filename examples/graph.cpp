// A graph as a value: built, printed, differentiated, planned and run.
#include <cstdio>
#include <span>
#include <vector>

#include <trireme/cpu_device.h>
#include <trireme/error.h>
#include <trireme/execution.h>
#include <trireme/recompute.h>
#include <trireme/training.h>

using trireme::DType;
using trireme::Execution;
using trireme::Graph;
using trireme::GraphBuilder;
using trireme::Program;
using trireme::ValueId;

namespace {

/// The sum of squares of relu(x w) - y.
Graph make_forward() {
  GraphBuilder b("line");
  const ValueId x = b.input("x", {DType::F32, {4, 2}});
  const ValueId y = b.input("y", {DType::F32, {4, 3}});
  const ValueId w = b.parameter("w", {DType::F32, {2, 3}});
  b.set_block(0);
  const ValueId h = b.add1("relu", {b.add1("einsum", {x, w}, {{"equation", "bi,ij->bj"}})});
  b.set_block(-1);
  const ValueId squares = b.add1("square", {b.add1("subtract", {h, y})});
  const ValueId loss = b.add1("reduce_sum", {squares}, {{"axes", std::vector<std::int64_t>{0, 1}}});
  b.rename(loss, "loss");
  b.output("loss", loss);
  return b.finish();
}

void write(Execution& execution, const char* name, const std::vector<float>& values) {
  execution.write(name, std::as_bytes(std::span(values)));
}

}  // namespace

int main() {
  const Graph forward = make_forward();
  const std::string text = to_text(forward);
  std::printf("%s", text.c_str());
  std::printf("parses back: %s\n\n", trireme::parse_graph(text) == forward ? "yes" : "no");

  const Graph step = trireme::make_training_graph(forward, {.optimizer = trireme::Sgd{}});
  std::printf("%s", to_text(step).c_str());
  const Graph less = trireme::recompute(step, {.mode = trireme::RecomputeMode::Full});
  std::printf("kept for the backward: %s, with recomputation %s\n\n",
              to_text(trireme::kept_bytes(step)).c_str(),
              to_text(trireme::kept_bytes(less)).c_str());

  const Program program = trireme::make_program(step);
  const trireme::MemoryUse use = trireme::memory_use(program);
  std::printf("arena %s, at most %s in use, at instruction %d\n", to_text(program.arena).c_str(),
              to_text(use.peak).c_str(), use.moment);

  const auto device = trireme::make_cpu_device({.threads = 1});
  Execution execution(program, *device);
  write(execution, "x", {1, 0, 0, 1, 1, 1, 2, 1});
  write(execution, "y", {1, 2, 3, 3, 2, 1, 4, 4, 4, 5, 6, 7});
  write(execution, "w", {1, 1, 1, 1, 1, 1});
  write(execution, "learning_rate", {0.05F});
  for (int i = 1; i <= 3; ++i) {
    execution.run();
    float loss = 0;
    execution.read("loss", std::as_writable_bytes(std::span(&loss, 1)));
    std::printf("step %d: loss %.3f\n", i, loss);
  }

  try {
    GraphBuilder b("wrong");
    const ValueId a = b.input("a", {DType::F32, {4, 2}});
    const ValueId c = b.input("c", {DType::F32, {3, 2}});
    b.add1("add", {a, c});
  } catch (const trireme::Error& error) {
    std::printf("\n%s\n", error.what());
  }
}
