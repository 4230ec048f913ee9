// `trireme straggler`: synchronization strategies on one training job under the same slow workers.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "command_line/files.h"
#include "command_line/terminal.h"
#include "report/draw/straggler_svg.h"
#include "report/straggler_text.h"
#include "trireme/cpu_device.h"
#include "trireme/message.h"
#include "trireme/slowness.h"
#include "trireme/straggler.h"
#include "trireme/time_variation.h"

namespace trireme::cli {
namespace {

struct StragglerArguments {
  TrainSettings settings;
  int workers = 4;
  std::string strategies =
      "allreduce,tree,gossip,group=2,local=8,hogwild,ps:bsp,ps:ssp=3,ps:ssp=3,pool,ps:essp=3,"
      "ps:async,ps:async,pool";
  std::string compute = "20ms";
  std::string slow;
  std::string transient;
  std::uint64_t seed = 1;
  std::string run_folder;
  std::string svg;
  bool json = false;
};

Slowness permanent(const StragglerArguments& args, const std::string& text) {
  return parsed("--slow", text, [&](const std::string& given) {
    return slow_workers(simulate::parse_count_and_factor(given), args.workers);
  });
}

Slowness transient(const std::string& text) {
  return slow_steps(parsed("--transient", text, simulate::parse_count_and_factor));
}

std::vector<Slowness> scenarios_of(const StragglerArguments& args) {
  const bool both = args.slow.empty() && args.transient.empty();
  std::vector<Slowness> scenarios;
  if (both || !args.slow.empty()) {
    scenarios.push_back(permanent(args, both ? "1x5" : args.slow));
  }
  if (both || !args.transient.empty()) {
    scenarios.push_back(transient(both ? "0.05x5" : args.transient));
  }
  for (Slowness& scenario : scenarios) {
    scenario.variation.seed = args.seed;
    trireme::require_valid(scenario.variation);
  }
  return scenarios;
}

StragglerOptions options_of(const StragglerArguments& args, const Slowness& scenario) {
  StragglerOptions options;
  options.run.settings = args.settings;
  options.run.settings.seed = args.seed;
  options.run.plan.mesh = Mesh({{"data", args.workers}});
  options.run.make_device = cpu_devices(1);
  options.run.run_folder = fmt::format("{}/{}", args.run_folder, scenario.name);
  options.strategies = parsed("--strategies", args.strategies, parse_sync_list);
  options.compute = parsed("--compute", args.compute, parse_seconds);
  options.slowdown = [variation = scenario.variation, workers = args.workers](int worker,
                                                                              std::int64_t step) {
    return simulate::time_factor(variation, worker, workers, step);
  };
  if (!args.json) {
    options.begin = [name = scenario.name](const SyncSpec& strategy) {
      fmt::print(stderr, "{}: {}\n", name, to_text(strategy));
    };
  }
  return options;
}

/// "runs/straggler-001", with the first free number.
std::string free_folder() {
  for (int number = 1;; ++number) {
    std::string folder = fmt::format("runs/straggler-{:03}", number);
    if (!std::filesystem::exists(folder)) {
      return folder;
    }
  }
}

void run(StragglerArguments args) {
  if (args.run_folder.empty()) {
    args.run_folder = free_folder();
  }
  const std::vector<Slowness> scenarios = scenarios_of(args);
  for (const Slowness& scenario : scenarios) {
    trireme::require_valid(
        options_of(args, scenario));  // before the first of them runs for a minute
  }
  std::vector<report::StragglerScenario> results;
  for (const Slowness& scenario : scenarios) {
    results.push_back({.name = scenario.name,
                       .meaning = scenario.meaning,
                       .report = compare_under_stragglers(options_of(args, scenario))});
    if (!args.json) {
      std::cout << report::straggler_text(results.back(), standard_output()) << "\n";
    }
  }
  if (args.json) {
    std::cout << report::straggler_json(results);
  }
  if (!args.svg.empty()) {
    write_and_report(args.svg, report::straggler_svg(results));
  }
}

}  // namespace

void add_straggler_command(Command& app) {
  auto args = std::make_shared<StragglerArguments>();
  args->settings.model = "gpt-nano";
  args->settings.length = 32;
  args->settings.steps = 80;
  args->settings.rate = "constant:0.0005";  // stale gradients bear smaller rates than fresh ones
  Command* command =
      app.add_subcommand("straggler", "Compare synchronization strategies with slow workers");
  command->add_option("--strategies", args->strategies, "what to compare, as in train --sync");
  command->add_option("-n,--workers", args->workers,
                      "data-parallel workers, threads of this process", integer_in(1, 1024));
  command->add_option("--slow", args->slow, "permanently slow workers, NUMBERxFACTOR");
  command->add_option("--transient", args->transient, "slow steps, PROBABILITYxFACTOR");
  command->add_option("--compute", args->compute,
                      "time that a worker waits before a step, to represent computation");
  command->add_option("--model", args->settings.model, "the model to train, as in train");
  command->add_option("--data", args->settings.data, "a text file (default: a generated language)");
  command->add_option("--steps", args->settings.steps, "total number of steps");
  command->add_option("--batch", args->settings.batch, "sequences (or examples) per step");
  command->add_option("--length", args->settings.length, "tokens per sequence");
  command->add_option("--rate", args->settings.rate, "learning rate, as in train");
  command->add_option("--seed", args->seed, "seed for weights, data order and slow steps");
  command->add_option("--run-folder", args->run_folder,
                      "where the runs' files go (default: runs/straggler-NUMBER)");
  command->add_option("--svg", args->svg, "write a plot of loss over time to this file",
                      writable_path);
  command->add_flag("--json", args->json, "print JSON, with the curves");
  command->callback([args] { run(*args); });
}

}  // namespace trireme::cli
