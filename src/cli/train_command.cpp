// trireme train: from nothing, or from a checkpoint, to a trained model and the record of how it went.
#include <memory>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/parsed.h"
#include "cli/train_options.h"
#include "cli/train_ranks.h"
#include "cli/train_run.h"
#include "comm/rendezvous/launch_variables.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme train                                  a small GPT on a generated language, a "
    "minute\n"
    "  trireme train --data book.txt --steps 2000     any file, a byte a token\n"
    "  trireme train --model llama-tiny --json        a line of JSON for each step\n"
    "  trireme train --model conv-mini --batch 64     a classifier of generated images\n"
    "  trireme train --experts 8,per-token=2,shared=1 a mixture of experts\n"
    "  trireme train --model path/to/folder           a config.json and weights of Hugging Face's\n"
    "  trireme train --export gpt-mini                and into such a folder\n"
    "  trireme train --resume runs/gpt-mini-001 --steps 800\n"
    "  trireme train -n 4 --mesh data=2,tensor=2 --zero 1   on four processes\n"
    "\n"
    "Ctrl-C finishes the step, saves, and says how to go on.";

/// The plan, checked against the options and what has started this process.
Plan plan_of(const TrainOptions& options, const comm::LaunchInfo& launch) {
  verify(options);
  Plan plan = options.plan.plan();
  if (options.plan.file.empty()) {
    plan.recompute = parse_recompute(options.settings.recompute);
  }
  if (launch.size > 1 && options.plan.mesh.empty() && options.plan.file.empty()) {
    plan.mesh = Mesh({{"data", launch.size}});
  }
  require(launch.size == 1 || plan.mesh.devices() == launch.size,
          fmt::format("the mesh {} has {} devices, but {} started {} ranks; make them agree",
                      to_text(plan.mesh), plan.mesh.devices(), comm::to_text(launch.launcher),
                      launch.size));
  require(launch.size > 1 || (!options.bind && !options.encrypt),
          "--bind and --encrypt are for ranks on several hosts, which another program starts: "
          "mpirun, srun, torchrun, or you yourself with TRIREME_RANK, TRIREME_SIZE, TRIREME_STORE "
          "and TRIREME_SECRET");
  require(plan.mesh.devices() == 1 || options.export_folder.empty(),
          "--export is for one device: let this run end, then --resume it with --export alone");
  return plan;
}

void run(const TrainOptions& given) {
  const comm::LaunchInfo launch = comm::find_launch(variable);
  TrainOptions options;
  Plan plan;
  try {
    options = completed(given);
    plan = plan_of(options, launch);
  } catch (const Error&) {
    if (launch.rank == 0) {
      throw;
    }
    return;  // all ranks have the same options, and rank 0 tells what is wrong with them
  }
  if (launch.size > 1) {
    run_joined(options, plan);
  } else if (plan.mesh.devices() > 1) {
    run_forked(options, plan);
  } else {
    SharedNumber interrupted;
    run_rank(options, plan, nullptr, nullptr, interrupted);
  }
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a model, and show where the time went");
  add_train_options(command, *options);
  add_plan_options(command, options->plan);
  command->footer(kExamples);
  command->callback([options, command] {
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() > 0 && is_setting(option->get_single_name())) {
        options->given.push_back(option->get_single_name());
      }
    }
    run(*options);
  });
}

}  // namespace trireme::cli
