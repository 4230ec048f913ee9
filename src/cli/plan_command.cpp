// `trireme plan`: the fastest way to train a model on a cluster that fits into memory.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "cli/train_plan.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/compiled_plan_text.h"
#include "report/op_plan_text.h"
#include "report/plan_text.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/estimate.h"
#include "trireme/memory_prediction.h"
#include "trireme/message.h"
#include "trireme/op_planning.h"
#include "trireme/planner_options.h"
#include "trireme/search_text.h"
#include "trireme/train_step.h"

namespace trireme::cli {
namespace {

struct PlanArguments {
  PlannerOptions planner;
  std::string cluster = "dgx-h100";
  std::string tokens;
  std::string output;
  bool explain = false;
  bool ops = false;
  bool json = false;
};

/// What `trireme train` needs for the plan on its fullest rank. Throws Error(Usage) if it cannot run it.
MemoryUse predict_own_memory(const TransformerCost& cost, const RankedLayout& layout) {
  TrainSettings settings;
  settings.batch = cost.workload().batch;
  settings.length = cost.workload().length;
  settings.dtype = cost.workload().dtype;
  const NamedModel model{.config = cost.model().model, .is_preset = true};
  require(cost.model().is_buildable(), "no graph can be built");
  const Plan plan = to_plan(layout, cost.workload(), static_cast<int>(cost.model().model.layers));
  return predict_memory(make_train_step(settings, model, plan), plan).largest().use;
}

/// The same for the plans of a search, each predicted once. Of those that cannot run, tells why.
class OwnMemory {
 public:
  OwnMemory(const TransformerCost& cost, const PlanSearch& search)
      : cost_(cost), search_(search), known_(search.best.size()) {}

  const std::optional<MemoryUse>& of(std::size_t plan) {
    if (!known_.at(plan)) {
      known_[plan] = predict(plan);
    }
    return *known_[plan];
  }

 private:
  std::optional<MemoryUse> predict(std::size_t plan) {
    try {
      return predict_own_memory(cost_, search_.best[plan]);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Usage) {
        throw;
      }
      if (reason_ != error.what()) {
        reason_ = error.what();
        std::cerr << fmt::format("trireme: trireme train cannot run plan {}: {}\n", plan + 1,
                                 reason_);
      }
      return std::nullopt;
    }
  }

  const TransformerCost& cost_;  // both outlive this object, which is local to a command
  const PlanSearch& search_;
  std::vector<std::optional<std::optional<MemoryUse>>> known_;
  std::string reason_;
};

/// The first plan that runs and fits under `trireme train` too; the first one if none does.
std::size_t first_to_run(OwnMemory& memory, const PlanSearch& search) {
  const Bytes limit{static_cast<std::int64_t>(search.memory_limit)};
  for (std::size_t i = 0; i < search.best.size(); ++i) {
    const std::optional<MemoryUse>& use = memory.of(i);
    if (use && use->peak <= limit) {
      return i;
    }
    if (use) {
      std::cerr << fmt::format("trireme: plan {} needs {} under trireme train, more than {}\n",
                               i + 1, to_text(use->peak), to_text(limit));
    }
  }
  std::cerr
      << "trireme: writing plan 1 although no listed plan runs and fits; list more with --keep\n";
  return 0;
}

void write_plan(const PlanArguments& args, const TransformerCost& cost, const PlanSearch& search,
                OwnMemory& memory) {
  const RankedLayout& chosen = search.best[first_to_run(memory, search)];
  write_and_report(args.output, to_text(to_plan(chosen, cost.workload(),
                                                static_cast<int>(cost.model().model.layers))));
}

/// Some schedules have a closed form, but no table that runs.
void require_runnable_schedule(const PlanArguments& args) {
  const std::string& schedule = args.planner.schedule;
  const bool runs = std::ranges::any_of(
      pipeline_schedules(), [&](const PipelineSchedule& row) { return row.name == schedule; });
  require(args.output.empty() || schedule.empty() || runs,
          fmt::format("--output: {} can be costed, not run; leave out --output, or use zb-h1 or "
                      "zb-v",
                      schedule));
}

/// All devices: of a node side by side, and the nodes along `data`.
Mesh whole_mesh(const Cluster& cluster) {
  const MeshAxis inside{"tensor", cluster.devices_per_node};
  return cluster.nodes == 1 ? Mesh({inside}) : Mesh({{"data", cluster.nodes}, inside});
}

/// The placement of every value, chosen on the graph.
void run_ops(const PlanArguments& args, Outcome& outcome) {
  const PlannerOptions& o = args.planner;
  const Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  TrainSettings settings;
  settings.dtype = plan_dtype(o, cluster);
  settings.length = o.length > 0 ? o.length : settings.length;
  settings.batch = parsed("--batch", o.batch, [&](const std::string& text) {
    return parse_batch(text, settings.length);
  });
  OpPlanOptions options{.mesh = o.mesh.empty() ? whole_mesh(cluster)
                                               : parsed("--mesh", o.mesh, parse_mesh)};
  if (!o.memory_limit.empty()) {
    options.memory_bytes =
        static_cast<double>(parsed("--memory-limit", o.memory_limit, parse_bytes).count);
  }
  const NamedGraph step =
      make_train_step(settings, parsed("--model", o.model, load_any_model), Plan{});
  const std::optional<OpPlan> found = plan_ops(step.graph, cluster, options);
  if (!found) {
    std::cout << fmt::format("nothing fits into {}: use more devices, or a smaller batch\n",
                             o.memory_limit);
    outcome.exit_code = 1;
    return;
  }
  const report::ShownOpPlan shown{.plan = *found, .model = o.model, .cluster = cluster.name};
  std::cout << (args.json ? report::op_plan_json(shown)
                          : report::op_plan_text(shown, standard_output()));
  if (!args.output.empty()) {
    write_and_report(args.output, to_text(found->plan));
  }
}

void run(const PlanArguments& args, Outcome& outcome) {
  const Patience patience;
  if (args.ops) {
    run_ops(args, outcome);
    return;
  }
  require_runnable_schedule(args);
  const TransformerCost cost =
      make_cost(args.planner, parsed("--cluster", args.cluster, load_cluster));
  const double tokens =
      args.tokens.empty() ? 0 : parsed("--tokens", args.tokens, parse_token_count);
  const PlanSearch search = search_plans(cost, make_search(args.planner));
  std::cout << (args.json ? report::plan_search_json(cost, search, tokens)
                          : report::plan_search_text(cost, search,
                                                     {.terminal = standard_output(),
                                                      .explain = args.explain,
                                                      .tokens = tokens}));
  OwnMemory memory(cost, search);
  if (args.explain && !args.json && !search.best.empty()) {
    if (const std::optional<MemoryUse>& use = memory.of(0)) {
      std::cout << report::own_memory_text(*use);
    }
  }
  if (search.best.empty()) {
    outcome.exit_code = 1;
  } else if (!args.output.empty()) {
    write_plan(args, cost, search, memory);
  }
}

void add_options(Command& command, PlanArguments& args) {
  command.add_option("-m,--model", args.planner.model,
                     fmt::format("a config.json, its folder, or one of: {}",
                                 fmt::join(architecture_names(), " ")));
  command.add_option(
      "-c,--cluster", args.cluster,
      fmt::format("a .cluster.json file, several nodes such as dgx-h100:4, 4xdgx-h100 or "
                  "2xdgx-a100+1xdgx-h100, or one of: this (the probed host) {}",
                  fmt::join(cluster_preset_names(), " ")));
  command.add_option("-b,--batch", args.planner.batch,
                     "sequences per step on all devices, or tokens: 16Mtokens");
  command.add_option("-t,--length", args.planner.length,
                     "tokens per sequence (default: the model's context)", integer_in(1, 1 << 30));
  command.add_option("--dtype", args.planner.dtype,
                     "element type of matrix products; one of: bf16 f16 f8 f4 f32 (default: bf16, "
                     "or f32 if the device has no bf16)");
  command.add_option("--attention", args.planner.attention, "unfused: scores go through memory")
      ->choices({"fused", "unfused"});
  command.add_option("--recipe", args.planner.recipe, "whose memory and gradients")
      ->choices({"trireme", "megatron"});
  command.add_flag("--overlap-tensor", args.planner.overlap_tensor,
                   "tensor-parallel communication overlaps with computation");
  command.add_option("--memory-limit", args.planner.memory_limit,
                     "memory of a device, such as 70GB (default: 92 % of its memory)");
  command.add_option(
      "--tokens", args.tokens,
      "tokens to train on, such as 15T: also print the time, energy and cost of all steps");
  command.add_option("--watts", args.planner.watts,
                     "power of a device (default: the cluster's, if known)", above_zero());
  command.add_option("--price", args.planner.price,
                     "price of a device in dollars per hour (default: the cluster's, if known)",
                     above_zero());
}

void add_search_options(Command& command, PlanArguments& args) {
  command.section("Restrict the search");
  command.add_option("--mesh", args.planner.mesh,
                     "axes to keep, such as tensor=8 or pipe=4,data=16");
  command.add_option("--schedule", args.planner.schedule,
                     "one of: naive gpipe 1f1b interleaved zb-h1 zb-h2 zb-v");
  command.add_option("--recompute", args.planner.recompute, "one of: none selective full");
  command.add_option("--zero", args.planner.zero, "one of: 0 1 2 3", integer_in(0, 3));
  command.add_option("--microbatch", args.planner.microbatch, "sequences per micro-batch on a rank",
                     integer_in(1, 1 << 20));
  command.add_option("--bucket", args.planner.bucket, "size of a gradient bucket, such as 25MiB");
  command.add_option("--context", args.planner.context, "one of: gather all-to-all ring");
  command.add_flag("--wide", args.planner.wide,
                   "also sizes that are not powers of two, tensor groups across nodes, unequal "
                   "stages, ZeRO with stages, every schedule, bucket sizes, orders of the axes and "
                   "kinds of context parallelism");
}

void add_method_options(Command& command, PlanArguments& args) {
  command.section("How to search");
  command.add_option("--search", args.planner.search, "mcmc: a random walk, as a baseline")
      ->choices({"exhaustive", "mcmc"});
  command.add_option("--moves", args.planner.mcmc.moves, "moves of the random walk",
                     integer_in(std::int64_t{1}, std::int64_t{1} << 32));
  command.add_option("--temperature", args.planner.mcmc.temperature,
                     "temperature of the random walk: the slowdown that it readily accepts",
                     above_zero());
  command.add_option("--seed", args.planner.mcmc.seed, "random seed of the random walk");
}

}  // namespace

void add_plan_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<PlanArguments>();
  Command* command = app.add_subcommand(
      "plan", "Find the fastest way to train a model on a cluster, within memory");
  add_options(*command, *args);
  add_search_options(*command, *args);
  add_method_options(*command, *args);
  command->section("Output");
  command->add_option("--keep", args->planner.keep, "how many plans to show", integer_in(1, 1000));
  command->add_option("-o,--output", args->output,
                      "write the best one as a .plan.json for trireme train --plan", writable_path);
  command->add_flag("--explain", args->explain, "also print the assumptions behind the times");
  command->add_flag("--ops", args->ops,
                    "place every value of the model's graph instead, exactly, along the axes of "
                    "--mesh (default: all devices)");
  command->add_flag("--json", args->json, "one JSON object");
  add_plan_show_command(*command);
  command->callback([args, &outcome] { run(*args, outcome); });
}

}  // namespace trireme::cli
