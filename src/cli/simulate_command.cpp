// `trireme simulate`: one training step of a plan on a cluster, or synchronization strategies compared.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "cli/train_plan.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/list_schedule_text.h"
#include "report/simulation_text.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/list_schedule.h"
#include "trireme/message.h"
#include "trireme/model_kinds.h"
#include "trireme/pipeline_simulation.h"
#include "trireme/program_simulation.h"
#include "trireme/simulation_options.h"
#include "trireme/step_prediction.h"
#include "trireme/synchronization.h"
#include "trireme/train_step.h"

namespace trireme::cli {
namespace {

struct SimulateArguments {
  // The step of a plan.
  TrainSettings settings;
  PlanOptions plan;
  simulate::TaskOptions tasks;
  std::string cluster = "laptop";
  simulate::RateOptions rates;
  bool no_overlap = false;
  bool shared_port = false;
  std::string trace;
  int list_schedule = 0;  // devices
  // Strategies.
  bool strategies = false;
  simulate::StrategyOptions workers;
  std::string compute = "1s";
  std::string alpha = "0s";
  std::string transfer = "0s";
  // Both.
  simulate::VariationOptions variation;
  bool json = false;
};

void run_strategies(const SimulateArguments& args) {
  simulate::StrategyOptions options = args.workers;
  options.compute = parsed("--compute", args.compute, parse_seconds);
  options.alpha = parsed("--alpha", args.alpha, parse_seconds);
  options.transfer = parsed("--transfer", args.transfer, parse_seconds);
  options.variation = variation_of(args.variation);
  const std::vector<simulate::StrategyResult> results = simulate::compare_strategies(options);
  std::cout << (args.json ? report::strategies_json(options, results)
                          : report::strategies_text(options, results, standard_output()));
}

TrainStep compile(const SimulateArguments& args) {
  return compile_train_step(parsed("--model", args.settings.model, load_any_model), args.settings,
                            plan_with_notes(args.plan, args.settings.recompute));
}

void show(const SimulateArguments& args, const report::SimulatedStep& step,
          simulate::SimulationReport report) {
  if (!args.trace.empty()) {
    report.trace.title = fmt::format("{} as {} on {}", step.model, step.plan, step.cluster);
    write_and_report(args.trace, to_chrome_json(report.trace));
  }
  std::cout << (args.json ? report::simulation_json(step, report)
                          : report::simulation_text(step, report, standard_output()));
}

void run_tasks(const SimulateArguments& args) {
  const Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  const Plan plan = args.plan.plan();
  require(plan.ops.empty() && plan.values.empty(),
          "--tasks simulates whole stages, but the plan assigns single ops or values; leave out "
          "--tasks");
  const PipelineTable table = table_of(plan);
  const simulate::SimulationReport report =
      simulate::simulate_pipeline(table, stages_of(args.tasks, table), cluster,
                                  {.mesh = plan.mesh,
                                   .variation = variation_of(args.variation),
                                   .among = {},
                                   .trace = !args.trace.empty()});
  show(args,
       {.model = fmt::format("{} of {} micro-batches", table.name, table.microbatches),
        .plan = to_text(plan.mesh),
        .cluster = cluster.name},
       report);
}

/// On a host whose kernels were measured, if no rates are given.
bool is_measured(const SimulateArguments& args, const Cluster& cluster) {
  return args.rates.are_defaults() && cluster.host && cluster.host->compute;
}

void run_on_host(const SimulateArguments& args, const Cluster& cluster) {
  const TrainStep train_step = compile(args);
  const Plan& plan = train_step.compiled.plan();
  const int threads = predict::threads_per_rank(cluster.host->cores, plan.mesh.devices());
  const int busy = std::min(cluster.host->cores, plan.mesh.devices() * threads);
  const std::optional<FlopRate> peak = cluster.device.peak(args.settings.dtype);
  show(args,
       {.model = args.settings.model,
        .plan = to_text(plan.mesh),
        .cluster = cluster.name,
        .model_flops = train_step.model_flops,
        .peak = peak ? peak->count * busy : 0},
       predict::predict_step(train_step.compiled.rank_programs(), plan.mesh, *cluster.host,
                             {.variation = variation_of(args.variation),
                              .overlap = !args.no_overlap,
                              .trace = !args.trace.empty()}));
}

/// All ranks of a small mesh; of a large one, one of each kind.
std::vector<int> traced_ranks(const CompiledPlan& compiled) {
  constexpr int kMostTraced = 64;
  return compiled.plan().mesh.devices() <= kMostTraced
             ? std::vector<int>{}
             : std::vector<int>(compiled.ranks().begin(), compiled.ranks().end());
}

void run_plan(const SimulateArguments& args) {
  const Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  if (is_measured(args, cluster)) {
    run_on_host(args, cluster);
    return;
  }
  const simulate::ClusterRates rates =
      rates_of(args.rates, cluster, args.cluster, args.settings.dtype);
  const TrainStep train_step = compile(args);
  const Plan& plan = train_step.compiled.plan();
  simulate::ProgramSimulationOptions options{.compute = rates.compute,
                                             .variation = variation_of(args.variation),
                                             .among = {},
                                             .collective_start = rates.collective_start,
                                             .overlap = !args.no_overlap,
                                             .shared_node_port = args.shared_port,
                                             .trace = !args.trace.empty(),
                                             .traced = traced_ranks(train_step.compiled)};
  simulate::SimulationReport report = simulate::simulate_programs(
      train_step.compiled.rank_programs(), groups_of(plan.mesh), rates.cluster, options);
  const double ranks = plan.mesh.devices();
  const report::SimulatedStep step{.model = args.settings.model,
                                   .plan = to_text(plan.mesh),
                                   .cluster = cluster.name,
                                   .model_flops = train_step.model_flops,
                                   .peak = rates.peak.count * ranks};
  show(args, step, std::move(report));
}

/// The ops of a step on 1, 2, … devices, without a plan.
void run_list_schedules(const SimulateArguments& args) {
  const Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  const NamedGraph step = make_train_step(
      args.settings, parsed("--model", args.settings.model, load_any_model), Plan{});
  const simulate::TaskGraph tasks = simulate::task_graph_of(
      step.graph, rates_of(args.rates, cluster, args.cluster, args.settings.dtype).compute);
  std::vector<simulate::ListSchedule> schedules;
  for (int devices = 1; devices <= args.list_schedule; ++devices) {
    schedules.push_back(simulate::list_schedule(tasks, devices));
  }
  std::cout << (args.json ? report::list_schedules_json(args.settings.model, schedules)
                          : report::list_schedules_text(args.settings.model, schedules,
                                                        standard_output()));
}

void run(const SimulateArguments& args) {
  const Patience patience;
  if (args.list_schedule > 0) {
    run_list_schedules(args);
  } else if (args.strategies) {
    run_strategies(args);
  } else if (args.tasks.tasks) {
    run_tasks(args);
  } else {
    run_plan(args);
  }
}

void add_step_options(Command& command, SimulateArguments& args) {
  command.add_option("-m,--model", args.settings.model,
                     fmt::format("a config.json, its folder, a model of trireme estimate, or one "
                                 "of: {}",
                                 fmt::join(preset_any_model_names(), " ")));
  command.add_option("-c,--cluster", args.cluster,
                     fmt::format("a .cluster.json file, several nodes such as 2xdgx-h100, or one "
                                 "of: this (the probed host) {}",
                                 fmt::join(cluster_preset_names(), " ")));
  command.add_option("-b,--batch", args.settings.batch, "sequences (or examples) per step",
                     integer_in(1, 1 << 30));
  command.add_option("-t,--length", args.settings.length, "tokens per sequence",
                     integer_in(1, 1 << 30));
  command.add_option("--dtype", args.settings.dtype, "one of: f32 bf16 f16 f64");
  command.add_option("--clip", args.settings.clip,
                     "maximum global gradient norm; 0 disables clipping");
  command.add_option("--recompute", args.settings.recompute,
                     "activations to recompute: a memory budget, or one of: none selective full");
  command.add_option("--flops", args.rates.flops,
                     "FLOP/s of a device (default: what training reaches there; with the "
                     "next three options, its dense peak)",
                     above_zero());
  command.add_option("--memory-bandwidth", args.rates.bandwidth,
                     "bytes/s of a device's memory (default: its own; with --flops: not limited)",
                     above_zero());
  command.add_option("--efficiency", args.rates.efficiency,
                     "share of the FLOP/s that all kernels reach; 1: the peak",
                     number_in(1e-6, 1.0));
  command.add_option("--launch", args.rates.launch, "kernel launch time");
  command.add_flag("--no-overlap", args.no_overlap, "wait for each communication op immediately");
  command.add_flag("--shared-port", args.shared_port, "ranks of a node share one network port");
  command.add_option("--trace", args.trace, "write the timeline to this file, for Perfetto",
                     writable_path);
  command.add_option(
      "--list-schedule", args.list_schedule,
      "instead of a plan: each op on one of up to N devices (Graham's list schedule)",
      integer_in(1, 64));
  add_plan_options(&command, args.plan);
}

void add_task_options(Command& command, simulate::TaskOptions& o) {
  command.section("Tasks with given times, of a rank's layers");
  Option* tasks = command.add_flag(
      "--tasks", o.tasks,
      "simulate the tasks of the pipeline schedule, with these times, instead of a model");
  const auto add = [&](Option* option) { option->needs(tasks); };
  add(command.add_option("--forward", o.forward, "time of the forward pass of a micro-batch"));
  add(command.add_option("--backward", o.backward, "time of its backward pass"));
  add(command.add_option("--update", o.update, "time of a weight update"));
  add(command.add_option("--message-bytes", o.message_bytes, "size of a message between stages"));
  add(command.add_option("--gradient-bytes", o.gradient_bytes,
                         "size of the gradients reduced along data"));
  add(command.add_option("--buckets", o.buckets, "number of gradient buckets",
                         integer_in(1, 1 << 16)));
  add(command.add_option("--tensor-bytes", o.tensor_bytes, "size of an all-reduce along tensor"));
  add(command.add_option("--tensor-calls", o.tensor_calls,
                         "all-reduces along tensor per forward pass, and per backward pass",
                         integer_in(0, 1 << 16)));
}

void add_strategy_options(Command& command, SimulateArguments& args) {
  command.section("Synchronization strategies");
  Option* strategies =
      command
          .add_flag("--strategies", args.strategies,
                    "compare synchronization strategies instead of simulating a plan")
          ->excludes(command.get_option("--tasks"));
  const auto add = [&](Option* option) { option->needs(strategies); };
  add(command.add_option("--workers", args.workers.workers, "number of workers",
                         integer_in(1, 1 << 16)));
  add(command.add_option("--steps", args.workers.steps, "mean number of iterations per worker",
                         integer_in(1, 1 << 24)));
  add(command.add_option("--staleness", args.workers.staleness, "staleness bound of SSP",
                         integer_in(0, 1 << 24)));
  add(command.add_option("--group", args.workers.group,
                         "workers of a group (0: the root of the number of workers)",
                         integer_in(0, 1 << 16)));
  add(command.add_option("--compute", args.compute, "compute time of an iteration"));
  add(command.add_option("--alpha", args.alpha, "latency of a message"));
  add(command.add_option("--transfer", args.transfer, "time to send the whole model over a link"));
}

void add_common_options(Command& command, SimulateArguments& args) {
  command.section("Variation and output");
  command.add_option("--jitter", args.variation.jitter,
                     "of computation times; one of: none uniform exponential");
  command.add_option("--slow", args.variation.slow,
                     "permanently slow ranks or workers, such as 1x2");
  command.add_option("--transient", args.variation.transient,
                     "chance that a time is longer, and how many times, such as 0.05x10");
  command.add_option("--seed", args.variation.seed, "random seed for the times");
  command.add_flag("--json", args.json, "one JSON object");
}

}  // namespace

void add_simulate_command(Command& app) {
  auto args = std::make_shared<SimulateArguments>();
  Command* command = app.add_subcommand(
      "simulate", "Simulate a training step on a cluster, or compare synchronization");
  add_step_options(*command, *args);
  add_task_options(*command, args->tasks);
  add_strategy_options(*command, *args);
  add_common_options(*command, *args);
  command->callback([args] { run(*args); });
}

}  // namespace trireme::cli
