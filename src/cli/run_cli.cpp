#include "cli/run_cli.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "cli/commands.h"
#include "command_line/parse.h"
#include "command_line/terminal.h"
#include "trireme/error.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

void print_error(const std::string& message) {
  std::cerr << "trireme: " << message << "\n";
}

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
  } catch (const Error& error) {
    print_error(error.what());
    const bool caller = error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input;
    return caller ? kUsage : kFailed;
  } catch (const Bug& bug) {
    print_error(std::string("internal error, please report it: ") + bug.what());
  } catch (const std::bad_alloc&) {
    print_error("out of memory; use fewer ranks or blocks");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kFailed;
}

}  // namespace trireme::cli
