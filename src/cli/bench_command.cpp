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
#include "cli/host_file.h"
#include "cli/load_cluster.h"
#include "cli/names.h"
#include "command_line/files.h"
#include "command_line/terminal.h"
#include "report/bench_json.h"
#include "report/bench_text.h"
#include "report/capabilities_text.h"
#include "report/draw/bench_drawing.h"
#include "trireme/bench_lists.h"
#include "trireme/collective.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

struct Options {
  std::string operations;
  std::string sizes = "8..16M";
  std::string algorithms = "automatic";
  Rank ranks = 0;
  std::string transport = "shm";
  bool encrypt = false;
  std::string dtype = "f32";
  std::string buffers = "own";
  int repeats = 0;
  bool json = false;
  std::string svg;
  std::string cluster;
  std::string tune;
  std::string tuning;
};

TransportKind parse_bench_transport(const std::string& text) {
  for (const TransportKind kind : {TransportKind::SharedMemory, TransportKind::InProcess,
                                   TransportKind::Tcp, TransportKind::Ucx}) {
    if (text != to_text(kind)) {
      continue;
    }
    if (!is_built(kind)) {
      throw Error(ErrorKind::Usage,
                  fmt::format("this build has no transport {}; install libucx-dev "
                              "and rebuild, or use tcp",
                              text));
    }
    return kind;
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("unknown transport '{}'; ranks of one host use shm, in-process, tcp or ucx",
                  text));
}

BufferKind parse_buffers(const std::string& text) {
  if (text == "own") {
    return BufferKind::Own;
  }
  if (text == "shared") {
    return BufferKind::Shared;
  }
  throw Error(ErrorKind::Usage, fmt::format("unknown buffer kind '{}'; use own or shared", text));
}

/// Adds the cases that the lists name to the plan.
void add_cases(measure::BenchPlan& plan, const Options& o) {
  measure::BenchSelection selection{.operations = measure::parse_operation_list(o.operations),
                                    .sizes = parsed("--sizes", o.sizes, measure::parse_size_list)};
  if (o.algorithms != "all") {
    selection.methods = parsed("--algorithm", o.algorithms, measure::parse_method_list);
    require(measure::sees_memory(plan) ||
                std::ranges::find(*selection.methods, Method::Kind::Direct, &Method::kind) ==
                    selection.methods->end(),
            "--algorithm: direct needs ranks that share memory; use --transport shm or in-process");
  }
  parsed("--sizes", o.sizes, [&](const std::string&) { measure::add_cases(plan, selection); });
  require(
      !plan.cases.empty(),
      fmt::format("--algorithm: {} does not do {}; 'trireme schedule --help' lists the algorithms",
                  o.algorithms, o.operations));
}

measure::BenchPlan make_plan(const Options& options) {
  measure::BenchPlan plan{
      .ranks = options.ranks == 0 ? std::max(2, measure::allowed_cores()) : options.ranks,
      .transport = parsed("--transport", options.transport, parse_bench_transport),
      .encrypt = options.encrypt,
      .dtype = parsed("--dtype", options.dtype, parse_dtype),
      .buffers = parsed("--buffers", options.buffers, parse_buffers),
      .repeats = options.repeats};
  if (plan.ranks < 1 || plan.ranks > measure::kMaxBenchRanks) {
    throw Error(ErrorKind::Usage, fmt::format("--ranks: {} ranks; a benchmark has 1 to {}",
                                              plan.ranks, measure::kMaxBenchRanks));
  }
  if (plan.buffers == BufferKind::Shared && !measure::sees_memory(plan)) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("--buffers: --transport {} has no shared buffers; use shm or in-process",
                    to_text(plan.transport)));
  }
  if (plan.encrypt && plan.transport != TransportKind::Tcp) {
    throw Error(ErrorKind::Usage,
                fmt::format("--encrypt: {} is not encrypted (--transport {}); use --transport tcp",
                            plan.transport == TransportKind::Ucx ? "ucx" : "memory of one host",
                            to_text(plan.transport)));
  }
  add_cases(plan, options);
  return plan;
}

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
std::optional<HostCosts> load_costs(const Options& options) {
  if (!options.cluster.empty()) {
    return parsed("--cluster", options.cluster,
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

Tuning load_tuning(const std::string& file) {
  const std::string text = read_file(file);
  try {
    return parse_tuning(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", file, error.what()));
  }
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
  return fmt::format("{}, {} cores", measure::host_name(), measure::allowed_cores());
}

/// What works, by running all of it once.
void run_matrix(const Options& options, Outcome& outcome) {
  std::vector<measure::TransportCapabilities> transports;
  for (const TransportKind kind : {TransportKind::SharedMemory, TransportKind::Tcp,
                                   TransportKind::Ucx, TransportKind::InProcess}) {
    transports.push_back(measure::find_capabilities(kind));
  }
  std::cout << (options.json ? report::capabilities_json(transports)
                             : report::capabilities_text(transports, standard_output()));
  outcome.exit_code = report::is_complete(transports) ? 0 : 1;
}

void run(const Options& options, Outcome& outcome) {
  if (options.operations == "matrix") {
    run_matrix(options, outcome);
    return;
  }
  measure::BenchPlan plan = make_plan(options);
  if (!options.tuning.empty()) {
    plan.tuning = parsed("--tuning", options.tuning, load_tuning);
  }
  plan.costs = load_costs(options);
  const measure::BenchReport report = run_cases(std::move(plan));
  if (!options.svg.empty()) {
    write_and_report(options.svg, report::bench_svg(report));
  }
  if (!options.tune.empty()) {
    write_and_report(options.tune,
                     to_text(measure::make_tuning(report, {machine_name(), today()})));
  }
  std::cout << (options.json ? report::bench_json(report)
                             : report::bench_text(report, standard_output().color));
  const bool correct = std::ranges::all_of(
      report.rows, [](const measure::BenchRow& row) { return row.result.correct; });
  outcome.exit_code = correct ? 0 : 1;
}

void add_options(Command& command, Options& o) {
  command
      .add_option("operations", o.operations,
                  "comma-separated; one of: all " + names_of(all_operations()) +
                      "; or matrix: which work on which transport with which types")
      ->required();
  command.add_option("-n,--ranks", o.ranks, "number of ranks (default: one per core, at least 2)",
                     integer_in(1, measure::kMaxBenchRanks));
  command.add_option(
      "--sizes", o.sizes,
      "bytes of the whole vector (alltoall: of one rank's send buffer): a list 8,1K,64K "
      "or a range 8..64M, in steps of 4, or 8..64M:2 in steps of 2");
  command.add_option("-a,--algorithm", o.algorithms,
                     "comma-separated; one of: all automatic direct " + names_of(all_algorithms()));
  command.add_option("--transport", o.transport, "one of: shm in-process tcp ucx");
  command.add_flag("--encrypt", o.encrypt, "with --transport tcp: encrypt connections (TLS 1.3)");
  command.add_option("--dtype", o.dtype, "one of: f32 f64 f16 bf16 i8 u8 i32 i64");
  command.add_option("--buffers", o.buffers, "one of: own shared (of World::allocate)");
  command.add_option("--repeats", o.repeats,
                     "timed calls per case (default: chosen by the time of a call)",
                     integer_in(1, 1'000'000));
  command.add_option(
      "--cluster", o.cluster,
      "cluster file of 'trireme probe' to choose and predict with (default: this host's)");
  command.add_option("--svg", o.svg, "write a plot of measured and predicted times to this file");
  command.add_option("--tune", o.tune,
                     "write the fastest method of each operation and size to this file");
  command.add_option("--tuning", o.tuning,
                     "choose the 'automatic' method from a file written by --tune");
  command.add_flag("--json", o.json, "one JSON object per row, one row per line");
}

}  // namespace

void add_bench_command(Command& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "bench", "Time collectives between ranks of this host, and check their results");
  add_options(*command, *options);
  command->callback([options, &outcome] { run(*options, outcome); });
}

}  // namespace trireme::cli
