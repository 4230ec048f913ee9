// The bytes of the closed form are those that the programs of the same plan send.
#include <string>

#include <gtest/gtest.h>

#include "trireme/compiled_plan.h"
#include "trireme/cost.h"
#include "trireme/model.h"
#include "trireme/model_dims.h"
#include "trireme/planner.h"
#include "trireme/program_set.h"
#include "trireme/training.h"

namespace trireme {
namespace {

constexpr std::int64_t kSequences = 8;
constexpr std::int64_t kLength = 64;

ModelConfig small_llama() {
  ModelConfig config = preset_model("llama-tiny");
  config.dtype = DType::BF16;
  return config;
}

/// Of an average rank, counted over the programs' collectives.
StepTraffic sent_by_programs(const ModelConfig& config, const Plan& plan) {
  const Graph graph = make_training_graph(
      make_model(config, {.sequences = kSequences, .length = kLength}).graph, {});
  const CompiledPlan compiled({graph, dim_names(graph)}, plan);
  StepTraffic sent;
  for (const Program& program : compiled.programs()) {
    for (const OpTraffic& traffic : traffic_of(program)) {
      double& total = traffic.group != "data"      ? sent.activation
                      : traffic.op == "all_gather" ? sent.parameter
                                                   : sent.gradient;
      total += traffic.bytes / plan.mesh.devices();
    }
  }
  return sent;
}

void expect_close(double closed, double programs, const std::string& what) {
  EXPECT_NEAR(closed, programs, 0.05 * programs + 1e-9) << what;
}

TEST(StepTraffic, MatchPrograms) {
  const ModelConfig config = small_llama();
  Architecture architecture;
  architecture.model = config;
  const Workload work{.batch = kSequences, .length = kLength, .recipe = trireme_recipe("bf16")};
  const Cluster cluster = cluster_preset("dgx-h100");
  const TransformerCost cost(architecture, work, cluster, efficiency_of(cluster));
  for (const ParallelLayout& layout :
       {ParallelLayout{.data = 4, .microbatch = 2}, ParallelLayout{.tensor = 2, .microbatch = 8},
        ParallelLayout{.data = 4, .microbatch = 2, .zero = 1},
        ParallelLayout{.pipe = 2, .microbatch = 2},
        ParallelLayout{.tensor = 2, .microbatch = 8, .sequence = true},
        ParallelLayout{.data = 2, .tensor = 2, .microbatch = 4}}) {
    const StepTraffic closed = cost.sent(layout);
    const StepTraffic programs = sent_by_programs(
        config, to_plan({.layout = layout}, work, static_cast<int>(config.layers)));
    const std::string mesh = mesh_text(layout);
    expect_close(closed.gradient, programs.gradient, mesh + " gradient");
    expect_close(closed.parameter, programs.parameter, mesh + " parameter");
    expect_close(closed.activation, programs.activation, mesh + " activation");
  }
}

}  // namespace
}  // namespace trireme
