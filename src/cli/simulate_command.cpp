// `trireme simulate`: one training step of a plan on a cluster, or synchronization strategies compared.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "cli/simulate_tasks.h"
#include "cli/train_plan.h"
#include "command_line/files.h"
#include "command_line/terminal.h"
#include "report/list_schedule_text.h"
#include "report/simulation_text.h"
#include "trireme/error.h"
#include "trireme/list_schedule.h"
#include "trireme/load_model.h"
#include "trireme/message.h"
#include "trireme/pipeline_simulation.h"
#include "trireme/program_simulation.h"
#include "trireme/recompute_choice.h"
#include "trireme/step_prediction.h"
#include "trireme/synchronization.h"
#include "trireme/train_step.h"

namespace trireme::cli {
namespace {

struct Options {
  // The step of a plan.
  TrainSettings settings;
  PlanOptions plan;
  TaskOptions tasks;
  std::string cluster = "laptop";
  double flops = 0;  // 0: the device's peak
  double bandwidth = 0;
  double efficiency = 1;
  std::string launch = "0s";
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
  std::string jitter = "none";
  std::string slow = "0x1";
  std::string transient = "0x1";
  std::uint64_t seed = 1;
  bool json = false;
};

simulate::TimeVariation variation_of(const Options& o) {
  simulate::TimeVariation variation;
  variation.jitter = parsed("--jitter", o.jitter, simulate::parse_jitter);
  const auto slow = parsed("--slow", o.slow, simulate::parse_count_and_factor);
  const auto transient = parsed("--transient", o.transient, simulate::parse_count_and_factor);
  variation.slow_workers = static_cast<int>(std::min(slow.count, 1e9));
  require(slow.count == variation.slow_workers,
          fmt::format("--slow: {:g} is not a number of workers", slow.count));
  variation.slow_factor = slow.factor;
  variation.transient_chance = transient.count;
  variation.transient_factor = transient.factor;
  variation.seed = o.seed;
  require_valid(variation);
  return variation;
}

void run_strategies(const Options& o) {
  simulate::StrategyOptions options = o.workers;
  options.compute = parsed("--compute", o.compute, parse_seconds);
  options.alpha = parsed("--alpha", o.alpha, parse_seconds);
  options.transfer = parsed("--transfer", o.transfer, parse_seconds);
  options.variation = variation_of(o);
  const std::vector<simulate::StrategyResult> results = simulate::compare_strategies(options);
  std::cout << (o.json ? report::strategies_json(options, results)
                       : report::strategies_text(options, results, standard_output()));
}

/// The rates of instructions: those given, else the device's peaks.
simulate::ComputeRates rates_of(const Options& o, const Cluster& cluster) {
  simulate::ComputeRates rates{.flops = {o.flops},
                               .memory = {o.bandwidth},
                               .launch = parsed("--launch", o.launch, parse_seconds)};
  if (o.flops <= 0) {
    try {
      const simulate::ComputeRates peaks = simulate::peak_rates(cluster.device, o.settings.dtype);
      rates.flops = peaks.flops;
      rates.memory = o.bandwidth > 0 ? rates.memory : peaks.memory;
    } catch (const Error& error) {
      throw Error(ErrorKind::Usage,
                  fmt::format("--cluster {}: {}; give --flops", o.cluster, error.what()));
    }
  }
  rates.flops.count *= o.efficiency;
  return rates;
}

TrainStep compile(const Options& o) {
  Plan plan = o.plan.plan();
  if (o.plan.file.empty()) {
    plan.recompute = parsed("--recompute", o.settings.recompute, parse_recompute);
  }
  return compile_train_step(o.settings, plan);
}

void show(const Options& o, const report::SimulatedStep& step, simulate::SimulationReport report) {
  if (!o.trace.empty()) {
    report.trace.title = fmt::format("{} as {} on {}", step.model, step.plan, step.cluster);
    write_and_report(o.trace, to_chrome_json(report.trace));
  }
  std::cout << (o.json ? report::simulation_json(step, report)
                       : report::simulation_text(step, report, standard_output()));
}

void run_tasks(const Options& o) {
  const Cluster cluster = parsed("--cluster", o.cluster, load_cluster);
  const Plan plan = o.plan.plan();
  require(plan.ops.empty() && plan.values.empty(),
          "--tasks simulates whole stages, but the plan assigns single ops or values; leave out "
          "--tasks");
  const PipelineTable table = table_of(plan);
  const simulate::SimulationReport report = simulate::simulate_pipeline(
      table, o.tasks.stages(table), cluster,
      {.mesh = plan.mesh, .variation = variation_of(o), .among = {}, .trace = !o.trace.empty()});
  show(o,
       {.model = fmt::format("{} of {} micro-batches", table.name, table.microbatches),
        .plan = to_text(plan.mesh),
        .cluster = cluster.name},
       report);
}

/// On a host whose kernels were measured, if no rates are given.
bool is_measured(const Options& o, const Cluster& cluster) {
  return o.flops <= 0 && o.bandwidth <= 0 && o.efficiency == 1 && cluster.host &&
         cluster.host->compute;
}

void run_on_host(const Options& o, const Cluster& cluster) {
  const TrainStep train_step = compile(o);
  const Plan& plan = train_step.compiled.plan();
  const int threads = predict::threads_per_rank(cluster.host->cores, plan.mesh.devices());
  const int busy = std::min(cluster.host->cores, plan.mesh.devices() * threads);
  const std::optional<FlopRate> peak = cluster.device.peak(o.settings.dtype);
  show(o,
       {.model = o.settings.model,
        .plan = to_text(plan.mesh),
        .cluster = cluster.name,
        .model_flops = train_step.model_flops,
        .peak = peak ? peak->count * busy : 0},
       predict::predict_step(
           train_step.compiled.programs(), plan.mesh, *cluster.host,
           {.variation = variation_of(o), .overlap = !o.no_overlap, .trace = !o.trace.empty()}));
}

void run_plan(const Options& o) {
  const Cluster cluster = parsed("--cluster", o.cluster, load_cluster);
  if (is_measured(o, cluster)) {
    run_on_host(o, cluster);
    return;
  }
  const simulate::ComputeRates rates = rates_of(o, cluster);
  const TrainStep train_step = compile(o);
  const Plan& plan = train_step.compiled.plan();
  simulate::ProgramSimulationOptions options{.compute = simulate::compute_by(rates),
                                             .variation = variation_of(o),
                                             .among = {},
                                             .overlap = !o.no_overlap,
                                             .shared_node_port = o.shared_port,
                                             .trace = !o.trace.empty()};
  simulate::SimulationReport report = simulate::simulate_programs(
      train_step.compiled.programs(), groups_of(plan.mesh), cluster, options);
  const double ranks = plan.mesh.devices();
  const report::SimulatedStep step{.model = o.settings.model,
                                   .plan = to_text(plan.mesh),
                                   .cluster = cluster.name,
                                   .model_flops = train_step.model_flops,
                                   .peak = rates.flops.count / o.efficiency * ranks};
  show(o, step, std::move(report));
}

/// The ops of a step on 1, 2, … devices, without a plan.
void run_list_schedules(const Options& o) {
  const Cluster cluster = parsed("--cluster", o.cluster, load_cluster);
  const NamedGraph step =
      make_train_step(o.settings, parsed("--model", o.settings.model, load_model), Plan{});
  const simulate::TaskGraph tasks =
      simulate::task_graph_of(step.graph, simulate::compute_by(rates_of(o, cluster)));
  std::vector<simulate::ListSchedule> schedules;
  for (int devices = 1; devices <= o.list_schedule; ++devices) {
    schedules.push_back(simulate::list_schedule(tasks, devices));
  }
  std::cout << (o.json
                    ? report::list_schedules_json(o.settings.model, schedules)
                    : report::list_schedules_text(o.settings.model, schedules, standard_output()));
}

void run(const Options& o) {
  if (o.list_schedule > 0) {
    run_list_schedules(o);
  } else if (o.strategies) {
    run_strategies(o);
  } else if (o.tasks.tasks) {
    run_tasks(o);
  } else {
    run_plan(o);
  }
}

void add_step_options(Command& command, Options& o) {
  command.add_option("-m,--model", o.settings.model, "a preset, a config.json or its folder");
  command.add_option("-c,--cluster", o.cluster,
                     "a preset such as 2xdgx-h100, this (the probed host), or a file");
  command.add_option("-b,--batch", o.settings.batch, "sequences (or examples) per step",
                     integer_in(1, 1 << 30));
  command.add_option("-t,--length", o.settings.length, "tokens per sequence",
                     integer_in(1, 1 << 30));
  command.add_option("--dtype", o.settings.dtype, "one of: f32 bf16 f16 f64");
  command.add_option("--clip", o.settings.clip,
                     "maximum global gradient norm; 0 disables clipping");
  command.add_option("--recompute", o.settings.recompute,
                     "activations to recompute: a memory budget, or one of: none selective full");
  command.add_option("--flops", o.flops, "FLOP/s of a device (default: its dense peak)",
                     above_zero());
  command.add_option("--memory-bandwidth", o.bandwidth,
                     "bytes/s of a device's memory (default: its own; with --flops: not limited)",
                     above_zero());
  command.add_option("--efficiency", o.efficiency, "share of the FLOP/s that kernels reach",
                     number_in(1e-6, 1.0));
  command.add_option("--launch", o.launch, "time to start a kernel");
  command.add_flag("--no-overlap", o.no_overlap, "wait for each communication op at once");
  command.add_flag("--shared-port", o.shared_port, "ranks of a node share one network port");
  command.add_option("--trace", o.trace, "write the timeline to this file, for Perfetto");
  command.add_option(
      "--list-schedule", o.list_schedule,
      "instead of a plan: each op on one of up to N devices (Graham's list schedule)",
      integer_in(1, 64));
  add_plan_options(&command, o.plan);
}

void add_strategy_options(Command& command, Options& o) {
  Option* strategies =
      command
          .add_flag("--strategies", o.strategies,
                    "compare synchronization strategies instead of simulating a plan")
          ->excludes(command.get_option("--tasks"));
  command.section("With --strategies");
  const auto add = [&](Option* option) { option->needs(strategies); };
  add(command.add_option("--workers", o.workers.workers, "number of workers",
                         integer_in(1, 1 << 16)));
  add(command.add_option("--steps", o.workers.steps, "iterations of a worker, on average",
                         integer_in(1, 1 << 24)));
  add(command.add_option("--staleness", o.workers.staleness, "s of SSP", integer_in(0, 1 << 24)));
  add(command.add_option("--group", o.workers.group,
                         "workers of a group (0: the root of the number of workers)",
                         integer_in(0, 1 << 16)));
  add(command.add_option("--compute", o.compute, "time of an iteration's computation"));
  add(command.add_option("--alpha", o.alpha, "latency of a message"));
  add(command.add_option("--transfer", o.transfer, "time of the whole model over a link"));
}

void add_common_options(Command& command, Options& o) {
  command.section("Variation and output");
  command.add_option("--jitter", o.jitter,
                     "of computation times; one of: none uniform exponential");
  command.add_option("--slow", o.slow, "permanently slow ranks or workers, such as 1x2");
  command.add_option("--transient", o.transient,
                     "chance that a time is longer, and how many times, such as 0.05x10");
  command.add_option("--seed", o.seed, "of the random times");
  command.add_flag("--json", o.json, "one JSON object");
}

}  // namespace

void add_simulate_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "simulate", "Predict a training step of a plan on a cluster, or compare how workers wait");
  add_step_options(*command, *options);
  add_task_options(*command, options->tasks);
  add_strategy_options(*command, *options);
  add_common_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
