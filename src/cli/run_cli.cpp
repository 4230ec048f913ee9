#include "cli/run_cli.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "trireme/error.h"
#include "trireme/message.h"
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
    "\n"
    "Exit codes: 0 ok, 1 failed, 2 usage (a bad option or bad input; the message names it),\n"
    "130 and 143 stopped by Ctrl-C and SIGTERM.\n"
    "Sizes are written 512, 64KiB, 1M (= 1 MiB) or 10MB; times 1.5us, 20ns or 3ms.";

/// Help that shows an option's value and default, but not its relations to other options, which are reported when
/// violated.
class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) {
      return {};
    }
    const std::string fallback = option->get_default_str();
    return (option->get_positional() ? " " : " VALUE") + (fallback.empty() ? "" : "=" + fallback);
  }
};

void print_error(const std::string& message) {
  std::cerr << "trireme: " << message << "\n";
}

/// "unknown command 'shedule'; did you mean schedule?", or "" if the first word is a command.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return {};
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  if (std::ranges::find(names, argv[1]) != names.end()) {
    return {};
  }
  return unknown_name("command", argv[1], names);
}

/// Why CLI11 could not convert a value: it expects an integer or a real number.
std::string conversion_problem(const std::string& value) {
  std::size_t used = 0;
  try {
    (void)std::stod(value, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  if (used == 0 || used != value.size()) {
    return "expected a number";
  }
  return value.find_first_not_of("+-0123456789") == std::string::npos ? "out of range"
                                                                      : "expected an integer";
}

/// "--batch: invalid value '1.5': expected an integer" in place of CLI11's conversion error.
std::string plain_message(const CLI::ParseError& error) {
  constexpr std::string_view kConversion = "Could not convert: ";
  std::string message = error.what();
  const std::size_t equals = message.find(" = ");
  if (!message.starts_with(kConversion) || equals == std::string::npos) {
    return message;
  }
  const std::string value = message.substr(equals + 3);
  return message.substr(kConversion.size(), equals - kConversion.size()) + ": invalid value '" +
         value + "': " + conversion_problem(value);
}

/// Reports a command-line error in one line, and where to read more.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return app.exit(error);  // --help and --version end up here
  }
  const std::string unknown = unknown_command(app, argc, argv);
  print_error((unknown.empty() ? plain_message(error) : unknown) + " (see trireme --help)");
  return kUsage;
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
  CLI::App app{"Trireme: partition a computation over a cluster, run it, see where the time goes",
               "trireme"};
  app.set_version_flag("--version", std::string("trireme ") + kVersion);
  app.formatter(std::make_shared<PlainFormatter>());
  app.require_subcommand(1);
  app.footer(kFooter);
  Outcome outcome;
  add_tour_command(app);
  add_train_command(app, outcome);
  add_schedule_command(app, outcome);
  add_pipeline_command(app, outcome);
  add_cluster_command(app);
  add_estimate_command(app);
  add_plan_command(app, outcome);
  add_validate_command(app);
  add_calibrate_command(app);
  add_simulate_command(app);
  add_straggler_command(app);
  add_probe_command(app);
  add_bench_command(app, outcome);
  add_ps_command(app, outcome);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error, argc, argv);
  }
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
