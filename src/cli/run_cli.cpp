#include "cli/run_cli.h"

#include <cstdio>
#include <iostream>
#include <string>

#include "cli/commands.h"
#include "command_line/failure.h"
#include "command_line/parse.h"
#include "command_line/terminal.h"
#include "trireme/error.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

/// All output must have been written: a full disk or a closed pipe is a failure.
void flush_output() {
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(ErrorKind::System,
                "cannot write to standard output: the disk is full or the reader has exited");
  }
}

int run(int argc, char** argv) {
  Command program(
      "trireme", "Trireme: partition a computation over a cluster, run it, see where the time goes",
      kVersion);
  program.callback([&] { std::cout << program.help(help_width()); });
  Outcome outcome;
  add_tour_command(program);
  add_train_command(program, outcome);
  add_generate_command(program, outcome);
  add_evaluate_command(program);
  add_report_command(program);
  add_tokenize_command(program, outcome);
  add_schedule_command(program, outcome);
  add_pipeline_command(program, outcome);
  add_repartition_command(program, outcome);
  add_cluster_command(program);
  add_devices_command(program);
  add_estimate_command(program);
  add_plan_command(program, outcome);
  add_validate_command(program);
  add_calibrate_command(program);
  add_simulate_command(program);
  add_straggler_command(program);
  add_probe_command(program);
  add_bench_command(program, outcome);
  add_ps_command(program, outcome);
  add_help_command(program);
  std::cout << parse(program, argc, argv, help_width());
  flush_output();
  return outcome.exit_code;
}

}  // namespace

int run_cli(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (...) {
    const Failure failure = current_failure();
    std::cerr << "trireme: " << failure.message << "\n";
    return failure.exit_code;
  }
}

}  // namespace trireme::cli
