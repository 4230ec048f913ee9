// `trireme schedule`: one collective, step by step, or all algorithms compared.
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/schedule_options.h"

namespace trireme::cli {
namespace {

struct ScheduleArguments {
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
CostModel make_costs(ScheduleArguments& args) {
  if (args.cluster.empty()) {
    return CostModel::uniform(parsed("--alpha", args.alpha, parse_seconds),
                              parsed("--beta", args.beta, parse_seconds),
                              parsed("--gamma", args.gamma, parse_seconds));
  }
  const Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  if (!args.ranks_given) {
    args.schedule.ranks = cluster.devices();
  }
  if (args.schedule.ranks > cluster.devices()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "--ranks: {} ranks on {}, which has {} devices; name a larger cluster, such as {}:{}",
            args.schedule.ranks, cluster.name, cluster.devices(),
            args.cluster.substr(0, args.cluster.find(':')),
            (args.schedule.ranks + cluster.devices_per_node - 1) / cluster.devices_per_node));
  }
  return simulate::cluster_costs(cluster);
}

/// A file names its operation, so one on the command line is an error.
simulate::ScheduleReport report_from_file(const ScheduleArguments& args, const CostModel& costs) {
  if (!args.schedule.operation.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("--file: the file names its operation; leave out '{}'",
                            args.schedule.operation));
  }
  Schedule schedule = parsed_file("--file", args.file, parse_schedule);
  return simulate::make_schedule_report(std::move(schedule),
                                        simulate::schedule_payload(args.schedule), costs);
}

simulate::NetworkReport make_network(const ScheduleArguments& args,
                                     const simulate::ScheduleReport& report) {
  Topology topology = parsed("--topology", args.topology, [&](const std::string& text) {
    return parse_topology(text, report.schedule.ranks);
  });
  return simulate::make_network_report(report, std::move(topology),
                                       parsed("--switching", args.switching, parse_switching));
}

void run_comparison(ScheduleArguments args) {
  const CostModel costs = make_costs(args);
  const Operation operation = simulate::required_operation(args.schedule);
  simulate::require_ranks_and_root(args.schedule, operation);
  const Patience patience;
  const simulate::SizeRange range = parsed("--sizes", args.sizes, simulate::parse_size_range);
  Selector selector(costs);
  const auto compare_by = [&](double factor) {
    const Selector::Query query{
        .operation = operation, .ranks = args.schedule.ranks, .root = args.schedule.root};
    return simulate::compare_algorithms(selector, query,
                                        simulate::size_range(range.first, range.last, factor));
  };
  if (!args.svg.empty()) {
    write_and_report(
        args.svg,
        report::comparison_svg(compare_by(2)));  // denser than in the table, for smooth lines
  }
  const simulate::AlgorithmComparison comparison = compare_by(8);
  std::cout << (args.json ? report::comparison_json(comparison)
                          : report::comparison_text(comparison, standard_output().color));
}

void run_schedule(ScheduleArguments args, Outcome& outcome) {
  const CostModel costs = make_costs(args);
  constexpr Rank kQuick = 4096;
  const bool large = args.schedule.ranks > kQuick;
  const Patience patience({.reason = large ? fmt::format("{} ranks", args.schedule.ranks) : ""});
  simulate::ScheduleReport report = args.file.empty()
                                        ? simulate::make_schedule_report(args.schedule, costs)
                                        : report_from_file(args, costs);
  if (!args.topology.empty()) {
    report.network = make_network(args, report);
  }
  if (!args.svg.empty()) {
    write_and_report(args.svg,
                     report::schedule_svg(report.schedule, {report.payload, report.costs}));
  }
  if (!args.trace.empty()) {
    write_and_report(args.trace, to_chrome_json(simulate::predicted_trace(report)));
  }
  if (args.text) {
    std::cout << to_text(report.schedule);
  } else if (args.json) {
    report::write_schedule_json(report, [](std::string_view piece) { std::cout << piece; });
  } else {
    std::cout << report::schedule_text(report, standard_output());
  }
  outcome.exit_code = report.problems && !report.problems->empty() ? 1 : 0;
}

void add_what_options(Command& command, ScheduleArguments& args) {
  command.section("Collective");
  command.add_option("operation", args.schedule.operation, "one of: " + names_of(all_operations()));
  auto* file = command.add_option("--file", args.file, "show the schedule in this file instead");
  command
      .add_option("-a,--algorithm", args.schedule.algorithm,
                  "one of: auto (the fastest) " + names_of(all_algorithms()))
      ->excludes(file);
  command.add_option("-n,--ranks", args.schedule.ranks, "number of ranks")->excludes(file);
  command
      .add_option("--root", args.schedule.root, "the root of broadcast, reduce, scatter, gather")
      ->excludes(file);
  command.add_option("-s,--size", args.schedule.size,
                     "bytes of the whole vector (alltoall: of one rank's send buffer)");
  command.add_option("--dtype", args.schedule.dtype, "element type; blocks hold whole elements");
  command.add_option("--segments", args.schedule.segments,
                     "segments of chain and double-tree (default: the best)",
                     integer_in(1, 1 << 20));
  command.add_option(
      "--per-node", args.schedule.per_node,
      "ranks on a node, for two-level (default: of the cluster, or near the square root)",
      integer_in(1, 1 << 20));
}

void add_model_options(Command& command, ScheduleArguments& args) {
  command.section("Cost model");
  auto* cluster = command.add_option(
      "--cluster", args.cluster,
      fmt::format("take alpha, beta, gamma and the nodes from a .cluster.json file, from several "
                  "nodes such as dgx-h100:4, or from one of: {}",
                  fmt::join(cluster_preset_names(), " ")));
  for (const auto& [option, value, what] :
       {std::tuple{"--alpha", &args.alpha, "latency of a message"},
        std::tuple{"--beta", &args.beta, "time per byte moved"},
        std::tuple{"--gamma", &args.gamma, "time per byte combined"}}) {
    command.add_option(option, *value, what)->excludes(cluster);
  }
  auto* topology = command.add_option("--topology", args.topology,
                                      "also time it link by link on linear, ring, linear:half "
                                      "(half duplex), mesh:2x4, torus:4x4, fat-tree:4x2 "
                                      "(leaf x spines) or "
                                      "nodes:4x8 (nodes x devices)");
  command.add_option("--switching", args.switching, "one of: wormhole store-and-forward")
      ->needs(topology);
}

void add_output_options(Command& command, ScheduleArguments& args) {
  command.section("Output");
  auto* json =
      command.add_flag("--json", args.json, "one JSON object: facts, costs, and all steps");
  command.add_flag("--text", args.text, "the .schedule text, which --file reads back")
      ->excludes(json);
  command.add_option("--svg", args.svg, "write a picture to this file", writable_path);
  command.add_option("--trace", args.trace,
                     "write the predicted timeline to this file, for Perfetto", writable_path);
}

void add_compare_options(Command& command, ScheduleArguments& args) {
  command.section("Comparison");
  auto* compare =
      command.add_flag("--compare", args.compare, "all algorithms over a range of sizes instead");
  command.add_option("--sizes", args.sizes, "the range for --compare, FIRST:LAST")->needs(compare);
  for (const char* other : {"--file", "--algorithm", "--size", "--dtype", "--segments",
                            "--per-node", "--topology", "--text", "--trace"}) {
    compare->excludes(command.get_option(other));
  }
}

}  // namespace

void add_schedule_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<ScheduleArguments>();
  Command* command = app.add_subcommand(
      "schedule", "Show a collective step by step, or compare the algorithms for it");
  add_what_options(*command, *args);
  add_model_options(*command, *args);
  add_output_options(*command, *args);
  add_compare_options(*command, *args);
  command->callback([args, command, &outcome] {
    args->ranks_given = command->is_given("--ranks");
    args->compare ? run_comparison(*args) : run_schedule(*args, outcome);
  });
}

}  // namespace trireme::cli
