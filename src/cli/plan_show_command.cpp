// `trireme plan show`: shows the work of each rank under a plan.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/train_plan.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/compiled_plan_text.h"
#include "report/plan_ops_text.h"
#include "trireme/memory_prediction.h"
#include "trireme/message.h"
#include "trireme/model_kinds.h"
#include "trireme/train_step.h"

namespace trireme::cli {
namespace {

struct PlanShowArguments {
  TrainSettings settings;
  PlanOptions plan;
  std::string file;
  int rank = 0;
  bool json = false;
  bool ops = false;
  bool values = false;
};

/// Of plans with more nodes than this in all micro-batches, only one rank is compiled, which takes seconds.
constexpr std::size_t kMaxNodes = 400'000;

std::vector<int> ranks_to_compile(const MemoryPrediction& memory, std::size_t nodes, int shown) {
  std::vector<int> ranks;
  for (const report::ListedRank& one : report::listed_ranks(memory)) {
    if (nodes <= kMaxNodes) {
      ranks.push_back(one.rank);
    }
  }
  if (std::ranges::find(ranks, shown) == ranks.end()) {
    ranks.push_back(shown);
  }
  return ranks;
}

std::string text_of(const PlanShowArguments& args, const CompiledPlan& compiled,
                    const MemoryPrediction& memory) {
  const report::Terminal terminal = standard_output();
  if (args.ops) {
    return args.json ? report::plan_ops_json(compiled) : report::plan_ops_text(compiled, terminal);
  }
  if (args.values) {
    return args.json ? report::plan_values_json(compiled)
                     : report::plan_values_text(compiled, terminal);
  }
  const report::ShownPlan shown{
      .compiled = compiled, .memory = memory, .model = args.settings.model, .rank = args.rank};
  return args.json ? report::compiled_plan_json(shown)
                   : report::compiled_plan_text(shown, terminal);
}

void run(PlanShowArguments args) {
  const Patience patience;
  if (!args.file.empty()) {
    require(args.plan.file.empty() && args.plan.mesh.empty(),
            "give a plan file or --mesh, not both");
    args.plan.file = args.file;
  }
  const Plan plan = plan_with_notes(args.plan, args.settings.recompute);
  require(args.rank < plan.mesh.devices(),
          "--rank: the plan has ranks 0 to " + std::to_string(plan.mesh.devices() - 1));
  NamedGraph graph =
      make_train_step(args.settings, parsed("--model", args.settings.model, load_any_model), plan);
  const MemoryPrediction memory = predict_memory(graph, plan);
  const std::size_t nodes =
      graph.graph.nodes().size() * static_cast<std::size_t>(plan.microbatches);
  const CompiledPlan compiled(std::move(graph), plan, ranks_to_compile(memory, nodes, args.rank));
  std::cout << text_of(args, compiled, memory);
}

}  // namespace

void add_plan_show_command(Command& plan) {
  auto args = std::make_shared<PlanShowArguments>();
  Command* command = plan.add_subcommand(
      "show", "Print what a plan means: communication, memory and idle time of each rank");
  command->add_option("file", args->file, "a .plan.json (default: the options below)");
  command->add_option("-m,--model", args->settings.model,
                      fmt::format("a config.json, its folder, a model of trireme estimate, or "
                                  "one of: {}",
                                  fmt::join(preset_any_model_names(), " ")));
  command->add_option("-b,--batch", args->settings.batch, "sequences (or examples) per step",
                      integer_in(1, 1 << 30));
  command->add_option("-t,--length", args->settings.length, "tokens per sequence",
                      integer_in(1, 1 << 30));
  command->add_option("--dtype", args->settings.dtype, "one of: f32 bf16 f16 f64");
  command->add_option("--recompute", args->settings.recompute,
                      "activations to recompute: a memory budget, or one of: none selective full");
  add_plan_options(command, args->plan);
  command->section("Output");
  command->add_option("--rank", args->rank, "whose communication to list", integer_in(0, 1 << 20));
  command->add_flag(
      "--ops", args->ops,
      "list the ops instead: names, stages and placements, as a plan's ops name them");
  command
      ->add_flag("--values", args->values, "list the values instead, as a plan's values name them")
      ->excludes(command->get_option("--ops"));
  command->add_flag("--json", args->json, "one JSON object, with all ranks");
  command->callback([args] { run(*args); });
}

}  // namespace trireme::cli
