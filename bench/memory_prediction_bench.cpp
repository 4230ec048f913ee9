// How long predicting the memory of a plan takes, compared with compiling its programs. Checks that both give the same peak.
//
//   memory_prediction_bench [--large]     --large: models and meshes that are too large to compile all ranks
#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/compiled_plan.h"
#include "trireme/estimate.h"
#include "trireme/memory_prediction.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/optimize.h"
#include "trireme/recompute.h"
#include "trireme/training.h"

namespace trireme {
namespace {

struct Case {
  std::string model{};
  std::string mesh{};
  std::int64_t batch = 8;
  std::int64_t length = 128;
  int microbatches = 1;
  int zero = 0;
  RecomputeMode recompute = RecomputeMode::None;
};

/// Of the processor, so that other jobs do not count.
template <class F>
double seconds_of(F run) {
  const std::clock_t begin = std::clock();
  run();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

NamedGraph graph_of(const Case& c, const Plan& plan) {
  const Model model =
      make_model(architecture(c.model).model, {.sequences = c.batch, .length = c.length});
  Graph graph =
      remove_dead_nodes(recompute_by(make_training_graph(model.graph, {}), plan.recompute));
  DimNames names = dim_names(graph);
  return {std::move(graph), std::move(names)};
}

/// Returns whether the prediction was right.
bool run(const Case& c, bool compile_all) {
  Plan plan;
  plan.mesh = parse_mesh(c.mesh);
  plan.microbatches = c.microbatches;
  plan.zero = c.zero;
  plan.recompute.mode = c.recompute;
  NamedGraph graph;
  MemoryPrediction prediction;
  const double graph_seconds = seconds_of([&] { graph = graph_of(c, plan); });
  const double predicted = seconds_of([&] { prediction = predict_memory(graph, plan); });
  const int fullest = prediction.largest().first_rank;
  Bytes planned{};
  const double one = seconds_of(
      [&] { planned = memory_use(CompiledPlan(graph, plan, fullest).program(fullest)).peak; });
  if (planned != prediction.largest().use.peak) {
    fmt::print(stderr, "{} on {}: predicted {}, planned {}\n", c.model, c.mesh,
               prediction.largest().use.peak.count, planned.count);
    return false;
  }
  std::string all = "-";
  if (compile_all) {
    all = fmt::format("{:.3f}", seconds_of([&] { const CompiledPlan compiled(graph, plan); }));
  }
  fmt::print("{:<12} {:<28} {:>6} {:>6} {:>9} {:>9.3f} {:>9.3f} {:>9.3f} {:>9}\n", c.model, c.mesh,
             plan.mesh.devices(), prediction.kinds.size(), to_text(planned), graph_seconds,
             predicted, one, all);
  return true;
}

/// Returns whether all predictions were right.
bool run_all(bool large) {
  fmt::print("{:<12} {:<28} {:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}   (processor seconds)\n",
             "model", "mesh", "ranks", "kinds", "peak", "graph", "predict", "one rank",
             "all ranks");
  const std::vector<Case> small{
      {.model = "gpt2-small", .mesh = "data=2,tensor=2", .zero = 1},
      {.model = "gpt2-small", .mesh = "pipe=4", .microbatches = 8},
      {.model = "gpt2-small", .mesh = "data=8", .zero = 3, .recompute = RecomputeMode::Full},
      {.model = "gpt2-xl", .mesh = "data=2,tensor=2", .batch = 4, .length = 64},
      {.model = "gpt2-xl", .mesh = "pipe=4,tensor=2", .microbatches = 8},
      {.model = "gpt2-xl", .mesh = "data=8,tensor=4", .zero = 3, .recompute = RecomputeMode::Full}};
  const std::vector<Case> huge{
      {.model = "llama3-70b", .mesh = "data=64,tensor=8", .batch = 128, .length = 8192, .zero = 3},
      {.model = "llama3-70b",
       .mesh = "data=32,pipe=8,tensor=8",
       .batch = 1024,
       .length = 8192,
       .microbatches = 32,
       .zero = 1},
      {.model = "llama3-405b",
       .mesh = "data=128,pipe=16,tensor=8",
       .batch = 2048,
       .length = 8192,
       .microbatches = 16,
       .zero = 1}};
  return std::ranges::all_of(large ? huge : small, [&](const Case& c) { return run(c, !large); });
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  return trireme::run_all(count > 1 && std::strcmp(arguments[1], "--large") == 0) ? 0 : 1;
}
