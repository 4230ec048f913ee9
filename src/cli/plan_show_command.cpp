// `trireme plan show`: what a plan means for each rank.
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/train_plan.h"
#include "report/compiled_plan_text.h"
#include "report/plan_ops_text.h"
#include "trireme/message.h"
#include "trireme/recompute_choice.h"
#include "trireme/train_step.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme plan show best.plan.json --model gpt2-small --batch 16\n"
    "  trireme plan show --mesh data=2,tensor=2 --zero 1\n"
    "  trireme plan show --mesh pipe=4 --microbatches 8 --schedule zb-h1 --rank 3\n"
    "  trireme plan show mine.plan.json --model mlp --ops";

struct Options {
  TrainSettings settings;
  PlanOptions plan;
  std::string file;
  int rank = 0;
  bool json = false;
  bool ops = false;
  bool values = false;
};

std::string text_of(const Options& o, const CompiledPlan& compiled) {
  const report::Terminal terminal = standard_output();
  if (o.ops) {
    return o.json ? report::plan_ops_json(compiled) : report::plan_ops_text(compiled, terminal);
  }
  if (o.values) {
    return o.json ? report::plan_values_json(compiled)
                  : report::plan_values_text(compiled, terminal);
  }
  return o.json ? report::compiled_plan_json(compiled, o.settings.model)
                : report::compiled_plan_text(
                      compiled, {.terminal = terminal, .model = o.settings.model, .rank = o.rank});
}

void run(Options o) {
  if (!o.file.empty()) {
    require(o.plan.file.empty() && o.plan.mesh.empty(), "give a plan file or --mesh, not both");
    o.plan.file = o.file;
  }
  Plan plan = o.plan.plan();
  if (o.plan.file.empty()) {
    plan.recompute = parsed("--recompute", o.settings.recompute, parse_recompute);
  }
  require(o.rank < plan.mesh.devices(),
          "--rank: the plan has ranks 0 to " + std::to_string(plan.mesh.devices() - 1));
  const TrainStep step = compile_train_step(o.settings, plan);
  std::cout << text_of(o, step.compiled);
}

}  // namespace

void add_plan_show_command(CLI::App& plan) {
  auto options = std::make_shared<Options>();
  CLI::App* command = plan.add_subcommand(
      "show", "Print what a plan means: communication, memory and idle time of each rank");
  command->add_option("file", options->file, "a .plan.json (default: the options below)");
  command
      ->add_option("-m,--model", options->settings.model, "a preset, a config.json or its folder")
      ->capture_default_str();
  command->add_option("-b,--batch", options->settings.batch, "sequences (or examples) per step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("-t,--length", options->settings.length, "tokens per sequence")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("--dtype", options->settings.dtype, "f32, bf16, f16 or f64")
      ->capture_default_str();
  command
      ->add_option("--recompute", options->settings.recompute,
                   "activations to recompute: none, selective, full, or a memory budget")
      ->capture_default_str();
  add_plan_options(command, options->plan);
  command->add_option("--rank", options->rank, "whose communication to list")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  command->add_flag(
      "--ops", options->ops,
      "list the ops instead: names, stages and placements, as a plan's ops name them");
  command
      ->add_flag("--values", options->values,
                 "list the values instead, as a plan's values name them")
      ->excludes("--ops");
  command->add_flag("--json", options->json, "one JSON object, with all ranks");
  command->footer(kExamples);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
