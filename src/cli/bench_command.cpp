// `trireme bench`: times collectives between ranks on this host, verifies their results, and compares them with
// predictions.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "cli/names.h"
#include "command_line/files.h"
#include "command_line/host_file.h"
#include "command_line/terminal.h"
#include "report/bench_json.h"
#include "report/bench_text.h"
#include "report/capabilities_text.h"
#include "report/draw/bench_drawing.h"
#include "trireme/bench_options.h"
#include "trireme/collective.h"
#include "trireme/cores.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

struct BenchArguments {
  measure::BenchOptions bench;
  bool json = false;
  std::string svg;
  std::string cluster;
  std::string tune;
  std::string tuning;
};

/// On a terminal, shows progress and the next case. Otherwise prints nothing to standard error.
measure::BenchProgress progress_line(const measure::BenchPlan& plan) {
  if (isatty(STDERR_FILENO) == 0) {
    return [](std::size_t, const measure::BenchCase&) {};
  }
  return [total = plan.cases.size()](std::size_t done, const measure::BenchCase& next) {
    fmt::print(stderr, "\r\x1b[K[{}/{}] {} {}", done, total, to_text(next.operation),
               to_text(next.bytes));
    std::fflush(stderr);
  };
}

void clear_progress() {
  if (isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "\r\x1b[K");
  }
}

HostCosts costs_of(const Cluster& cluster) {
  if (!cluster.host) {
    throw Error(ErrorKind::Usage,
                fmt::format("cluster {} has no measured host costs; 'trireme probe --output FILE' "
                            "writes a file with them",
                            cluster.name));
  }
  return *cluster.host;
}

/// Costs of the given host, or of this one if it has been probed.
std::optional<HostCosts> load_costs(const BenchArguments& args) {
  if (!args.cluster.empty()) {
    return parsed("--cluster", args.cluster,
                  [](const std::string& file) { return costs_of(load_cluster(file)); });
  }
  const std::optional<Cluster> host = load_host_file();
  if (!host) {
    std::cerr
        << "trireme: no predictions: this host has not been probed; run 'trireme probe' first\n";
    return std::nullopt;
  }
  return costs_of(*host);
}

measure::BenchReport run_cases(measure::BenchPlan plan) {
  std::vector<measure::BenchResult> results = measure::run_bench(plan, progress_line(plan));
  clear_progress();
  return measure::make_bench_report(std::move(plan), std::move(results));
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string machine_name() {
  return fmt::format("{}, {} cores", measure::host_name(), usable_cores());
}

/// Prints the matrix of supported operations, by running each once.
void run_matrix(const BenchArguments& args, Outcome& outcome) {
  std::vector<measure::TransportCapabilities> transports;
  for (const TransportKind kind : all_transports()) {
    transports.push_back(measure::find_capabilities(kind));
  }
  std::cout << (args.json ? report::capabilities_json(transports)
                          : report::capabilities_text(transports, standard_output()));
  outcome.exit_code = report::is_complete(transports) ? 0 : 1;
}

/// `given`: the names of its options and arguments on the command line.
void run(const BenchArguments& args, std::vector<std::string> given, Outcome& outcome) {
  std::erase(given, "operations");
  if (args.bench.operations == "matrix") {
    require(given.empty() || given == std::vector<std::string>{"json"},
            "bench matrix tries all transports, types and sizes; leave out all options but --json");
    run_matrix(args, outcome);
    return;
  }
  measure::BenchPlan plan = measure::make_bench_plan(args.bench);
  if (!args.tuning.empty()) {
    plan.tuning = parsed_file("--tuning", args.tuning, parse_tuning);
  }
  plan.costs = load_costs(args);
  const measure::BenchReport report = run_cases(std::move(plan));
  if (!args.svg.empty()) {
    write_and_report(args.svg, report::bench_svg(report));
  }
  if (!args.tune.empty()) {
    write_and_report(args.tune, to_text(measure::make_tuning(report, {machine_name(), today()})));
  }
  std::cout << (args.json ? report::bench_json(report)
                          : report::bench_text(report, standard_output().color));
  const bool correct = std::ranges::all_of(
      report.rows, [](const measure::BenchRow& row) { return row.result.correct; });
  outcome.exit_code = correct ? 0 : 1;
}

void add_options(Command& command, BenchArguments& args) {
  command
      .add_option("operations", args.bench.operations,
                  "comma-separated; one of: all " + names_of(all_operations()) +
                      "; or matrix: which work on which transport with which types")
      ->required();
  command.add_option("-n,--ranks", args.bench.ranks,
                     "number of ranks (default: one per core, at least 2)",
                     integer_in(1, measure::kMaxBenchRanks));
  command.section("What to time");
  command.add_option(
      "--sizes", args.bench.sizes,
      "bytes of the whole vector (alltoall: of one rank's send buffer): a list 8,1K,64K "
      "or a range 8..64M, in steps of 4, or 8..64M:2 in steps of 2");
  command.add_option("-a,--algorithm", args.bench.algorithms,
                     "comma-separated; one of: all automatic direct " + names_of(all_algorithms()));
  command.add_option("--transport", args.bench.transport, "one of: " + names_of(all_transports()));
  command.add_flag("--encrypt", args.bench.encrypt,
                   "with --transport tcp: encrypt connections (TLS 1.3)");
  command.add_option("--dtype", args.bench.dtype, "one of: f32 f64 f16 bf16 i8 u8 i32 i64");
  command.add_option(
      "--buffers", args.bench.buffers,
      "private memory of each rank, or memory shared by all; one of: private shared");
  command.add_option("--repeats", args.bench.repeats,
                     "timed calls per case (default: chosen by the time of a call)",
                     integer_in(1, 1'000'000));
  command.section("Predictions and tuning");
  command.add_option(
      "--cluster", args.cluster,
      "cluster file of 'trireme probe' to choose and predict with (default: this host's)");
  command.add_option("--tune", args.tune,
                     "write the fastest method of each operation and size to this file",
                     writable_path);
  command.add_option("--tuning", args.tuning,
                     "choose the 'automatic' method from a file written by --tune");
  command.section("Output");
  command.add_option("--svg", args.svg, "write a plot of measured and predicted times to this file",
                     writable_path);
  command.add_flag("--json", args.json, "one JSON object per row, one row per line");
}

}  // namespace

void add_bench_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<BenchArguments>();
  Command* command = app.add_subcommand(
      "bench", "Time collectives between ranks of this host, and check their results");
  add_options(*command, *args);
  command->callback([args, command, &outcome] { run(*args, command->given(), outcome); });
}

}  // namespace trireme::cli
