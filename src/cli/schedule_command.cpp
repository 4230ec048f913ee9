// `trireme schedule`: one collective, step by step, or all algorithms compared.
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "cli/names.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/comparison_json.h"
#include "report/comparison_text.h"
#include "report/draw/drawing.h"
#include "report/schedule_json.h"
#include "report/schedule_text.h"
#include "trireme/algorithm_comparison.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/schedule_options.h"

namespace trireme::cli {
namespace {

struct Options {
  simulate::ScheduleOptions schedule;
  std::string file;
  std::string alpha = "1us";
  std::string beta = "1ns";
  std::string gamma = "0.1ns";
  std::string cluster;
  std::string topology;
  std::string switching = "wormhole";
  bool compare = false;
  std::string sizes = "8:1GiB";
  bool json = false;
  bool text = false;
  std::string svg;
  std::string trace;
  bool ranks_given = false;
};

/// The cost model. If a cluster is named, its device count becomes the number of ranks.
CostModel make_costs(Options& options) {
  if (options.cluster.empty()) {
    return CostModel::uniform(parsed("--alpha", options.alpha, parse_seconds),
                              parsed("--beta", options.beta, parse_seconds),
                              parsed("--gamma", options.gamma, parse_seconds));
  }
  const Cluster cluster = load_cluster(options.cluster);
  if (!options.ranks_given) {
    options.schedule.ranks = cluster.devices();
  }
  if (options.schedule.ranks > cluster.devices()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "--ranks: {} ranks on {}, which has {} devices; name a larger cluster, such as {}:{}",
            options.schedule.ranks, cluster.name, cluster.devices(),
            options.cluster.substr(0, options.cluster.find(':')),
            (options.schedule.ranks + cluster.devices_per_node - 1) / cluster.devices_per_node));
  }
  return simulate::cluster_costs(cluster);
}

/// A file names its operation, so one on the command line is an error.
simulate::ScheduleReport report_from_file(const Options& options, const CostModel& costs) {
  if (!options.schedule.operation.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("--file: the file names its operation; leave out '{}'",
                            options.schedule.operation));
  }
  Schedule schedule = parsed(options.file, read_file(options.file), parse_schedule);
  return simulate::make_schedule_report(std::move(schedule),
                                        simulate::schedule_payload(options.schedule), costs);
}

simulate::NetworkReport make_network(const Options& options,
                                     const simulate::ScheduleReport& report) {
  Topology topology = parsed("--topology", options.topology, [&](const std::string& text) {
    return parse_topology(text, report.schedule.ranks);
  });
  return simulate::make_network_report(report, std::move(topology),
                                       parsed("--switching", options.switching, parse_switching));
}

void run_comparison(Options options) {
  const CostModel costs = make_costs(options);
  const Operation operation = simulate::required_operation(options.schedule);
  simulate::require_ranks_and_root(options.schedule, operation);
  const simulate::SizeRange range = parsed("--sizes", options.sizes, simulate::parse_size_range);
  Selector selector(costs);
  const auto compare_by = [&](double factor) {
    const Selector::Query query{
        .operation = operation, .ranks = options.schedule.ranks, .root = options.schedule.root};
    return simulate::compare_algorithms(selector, query,
                                        simulate::size_range(range.first, range.last, factor));
  };
  if (!options.svg.empty()) {
    write_and_report(
        options.svg,
        report::comparison_svg(compare_by(2)));  // denser than in the table, for smooth lines
  }
  const simulate::AlgorithmComparison comparison = compare_by(8);
  std::cout << (options.json ? report::comparison_json(comparison)
                             : report::comparison_text(comparison, standard_output().color));
}

void run_schedule(Options options, Outcome& outcome) {
  const CostModel costs = make_costs(options);
  constexpr Rank kQuick = 4096;
  std::optional<Patience> patience;
  if (options.schedule.ranks > kQuick) {
    patience.emplace(fmt::format("{} ranks", options.schedule.ranks));
  }
  simulate::ScheduleReport report = options.file.empty()
                                        ? simulate::make_schedule_report(options.schedule, costs)
                                        : report_from_file(options, costs);
  if (!options.topology.empty()) {
    report.network = make_network(options, report);
  }
  if (!options.svg.empty()) {
    write_and_report(options.svg,
                     report::schedule_svg(report.schedule, {report.payload, report.costs}));
  }
  if (!options.trace.empty()) {
    write_and_report(options.trace, to_chrome_json(simulate::predicted_trace(report)));
  }
  if (options.text) {
    std::cout << to_text(report.schedule);
  } else if (options.json) {
    report::write_schedule_json(report, [](std::string_view piece) { std::cout << piece; });
  } else {
    std::cout << report::schedule_text(report, standard_output());
  }
  outcome.exit_code = report.problems && !report.problems->empty() ? 1 : 0;
}

void add_what_options(Command& command, Options& o) {
  command.add_option("operation", o.schedule.operation, "one of: " + names_of(all_operations()));
  auto* file = command.add_option("--file", o.file, "show the schedule in this file instead");
  command
      .add_option("-a,--algorithm", o.schedule.algorithm,
                  "one of: auto (the fastest) " + names_of(all_algorithms()))
      ->excludes(file);
  command.add_option("-n,--ranks", o.schedule.ranks, "number of ranks")->excludes(file);
  command.add_option("--root", o.schedule.root, "the root of broadcast, reduce, scatter, gather")
      ->excludes(file);
  command.add_option("-s,--size", o.schedule.size,
                     "bytes of the whole vector (alltoall: of one rank's send buffer)");
  command.add_option("--dtype", o.schedule.dtype, "element type; blocks hold whole elements");
  command.add_option("--segments", o.schedule.segments,
                     "segments of chain and double-tree (default: the best)",
                     integer_in(1, 1 << 20));
  command.add_option(
      "--per-node", o.schedule.per_node,
      "ranks on a node, for two-level (default: of the cluster, or near the square root)",
      integer_in(1, 1 << 20));
}

void add_model_options(Command& command, Options& o) {
  auto* cluster = command.add_option(
      "--cluster", o.cluster,
      "take alpha, beta, gamma and the nodes from a preset or a .cluster.json file");
  for (const auto& [option, value, what] :
       {std::tuple{"--alpha", &o.alpha, "latency of a message"},
        std::tuple{"--beta", &o.beta, "time per byte moved"},
        std::tuple{"--gamma", &o.gamma, "time per byte combined"}}) {
    command.add_option(option, *value, what)->excludes(cluster);
  }
  auto* topology = command.add_option("--topology", o.topology,
                                      "also time it link by link on linear, ring, linear:half "
                                      "(half duplex), mesh:2x4, torus:4x4, fat-tree:4x2 "
                                      "(leaf x spines) or "
                                      "nodes:4x8 (nodes x devices)");
  command.add_option("--switching", o.switching, "one of: wormhole store-and-forward")
      ->needs(topology);
}

void add_output_options(Command& command, Options& o) {
  auto* json = command.add_flag("--json", o.json, "one JSON object: facts, costs, and all steps");
  command.add_flag("--text", o.text, "the .schedule text, which --file reads back")->excludes(json);
  command.add_option("--svg", o.svg, "write a picture to this file");
  command.add_option("--trace", o.trace, "write the predicted timeline to this file, for Perfetto");
}

void add_compare_options(Command& command, Options& o) {
  auto* compare =
      command.add_flag("--compare", o.compare, "all algorithms over a range of sizes instead");
  command.add_option("--sizes", o.sizes, "the range for --compare, FIRST:LAST")->needs(compare);
  for (const char* other : {"--file", "--algorithm", "--size", "--dtype", "--segments",
                            "--per-node", "--topology", "--text", "--trace"}) {
    compare->excludes(command.get_option(other));
  }
}

}  // namespace

void add_schedule_command(Command& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "schedule", "Show a collective step by step, or compare the algorithms for it");
  add_what_options(*command, *options);
  add_model_options(*command, *options);
  add_output_options(*command, *options);
  add_compare_options(*command, *options);
  command->callback([options, command, &outcome] {
    options->ranks_given = command->is_given("--ranks");
    options->compare ? run_comparison(*options) : run_schedule(*options, outcome);
  });
}

}  // namespace trireme::cli
