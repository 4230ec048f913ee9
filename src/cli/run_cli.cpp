#include "cli/run_cli.h"

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "command_line/parse.h"
#include "trireme/error.h"
#include "trireme/transport_kind.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kFooter =
    "Examples:\n"
    "  trireme train                                       train a small GPT, a minute\n"
    "  trireme tour                                        a two-minute tour\n"
    "  trireme generate --run RUN --prompt 'Once upon'     continue a text with a trained model\n"
    "  trireme evaluate --run RUN                          its loss on all validation data\n"
    "  trireme report RUN                                  a page: curves, MFU, timeline, memory\n"
    "  trireme schedule allreduce --ranks 4                the fastest all-reduce, step by step\n"
    "  trireme schedule allreduce --compare --ranks 16     which algorithm at which size\n"
    "  trireme pipeline --compare                          which pipeline schedule idles least\n"
    "  trireme cluster dgx-h100:4                          what a cluster is made of\n"
    "  trireme estimate --model gpt2-small --device h100   parameters, FLOPs, memory, best MFU\n"
    "  trireme plan --model llama3-70b --cluster dgx-h100:8  the fastest plan that fits\n"
    "  trireme simulate --strategies --slow 1x2            who waits for a slow worker\n"
    "  trireme straggler --svg straggler.svg               the same on a real training job\n"
    "  trireme probe                                       measure this host\n"
    "  trireme bench allreduce -n 2 --sizes 8..64M         time collectives between processes\n"
    "  trireme ps chaos                                    kill parameter servers, count what is "
    "lost\n"
    "  trireme help train                                  the options of a command\n"
    "\n"
    "Exit codes: 0 ok, 1 failed, 2 usage (a bad option or bad input; the message names it),\n"
    "130 and 143 stopped by Ctrl-C and SIGTERM.\n"
    "\n"
    "Sizes are written 512, 64KiB, 1M (= 1 MiB) or 10MB; times 1.5us, 20ns or 3ms.";

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
  program.footer(kFooter);
  program.callback([&] { std::cout << program.help(help_width()); });
  Outcome outcome;
  add_tour_command(program);
  add_train_command(program, outcome);
  add_generate_command(program, outcome);
  add_evaluate_command(program);
  add_report_command(program);
  add_tokenize_command(program);
  add_schedule_command(program, outcome);
  add_pipeline_command(program, outcome);
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
  restore_signal_handlers();
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
