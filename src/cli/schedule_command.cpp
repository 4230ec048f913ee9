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
#include "trireme/schedule_report.h"
#include "trireme/tensor.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 50;

struct Options {
  std::string operation;
  std::string algorithm = "auto";
  std::string file;
  Rank ranks = 8;
  Rank root = 0;
  std::string size = "1MiB";
  std::string dtype = "u8";
  std::int64_t segments = 0;  // 0: the best
  Rank per_node = 0;
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
    options.ranks = cluster.devices();
  }
  if (options.ranks > cluster.devices()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format(
            "--ranks: {} ranks on {}, which has {} devices; name a larger cluster, such as {}:{}",
            options.ranks, cluster.name, cluster.devices(),
            options.cluster.substr(0, options.cluster.find(':')),
            (options.ranks + cluster.devices_per_node - 1) / cluster.devices_per_node));
  }
  return simulate::cluster_costs(cluster);
}

Payload make_payload(const Options& options) {
  const Bytes bytes = parsed("--size", options.size, parse_bytes);
  if (bytes.count > kLargestSize) {
    throw Error(ErrorKind::Usage,
                fmt::format("--size: {} are more than the largest size, 1024 TiB", to_text(bytes)));
  }
  const Bytes element = size_of(parsed("--dtype", options.dtype, parse_dtype));
  if (bytes.count % element.count != 0) {
    throw Error(ErrorKind::Usage,
                fmt::format("--size: {} bytes are not a multiple of the {} element size ({} bytes)",
                            bytes.count, options.dtype, element.count));
  }
  return {bytes.count / element.count, element.count};
}

Operation required_operation(const Options& options) {
  if (options.operation.empty()) {
    throw Error(ErrorKind::Usage,
                "name an operation (trireme schedule allreduce …) or a file (--file my.schedule)");
  }
  return parse_operation(options.operation);
}

/// What to build: the requested algorithm, or the one predicted fastest.
struct Decision {
  Algorithm algorithm;
  BuildOptions build;
  std::string reason;
};

/// Rejects invalid ranks and roots before anything is computed from them.
void check_numbers(const Options& options, Operation operation) {
  const Algorithm any = algorithms_for(operation).front();
  (void)parsed("--ranks", "", [&](const std::string&) {
    return formula(operation, any, {.ranks = options.ranks});
  });
  (void)parsed("--root", "", [&](const std::string&) {
    return formula(operation, any, {.ranks = options.ranks, .root = options.root});
  });
}

Decision decide(const Options& options, Operation operation, Bytes bytes, const CostModel& costs) {
  check_numbers(options, operation);
  const BuildOptions requested{
      .ranks = options.ranks, .root = options.root, .ranks_per_node = options.per_node};
  Decision decision{Algorithm::Mst, requested, ""};
  if (options.algorithm == "auto") {
    Selector selector(costs);
    const Selector::Query query{
        .operation = operation, .ranks = options.ranks, .root = options.root, .bytes = bytes};
    const Choice& best = selector.rank(query).front();
    decision = {best.algorithm, best.options, selector.explain(query)};
  } else {
    decision.algorithm = parsed("--algorithm", options.algorithm, parse_algorithm);
    (void)formula_text(operation, decision.algorithm);  // throws if unsupported
    decision.build.segments =
        best_segments(operation, decision.algorithm, options.ranks, bytes, costs);
    if (decision.build.ranks_per_node == 0 && !costs.is_uniform() &&
        options.ranks % costs.levels.front().span == 0) {
      decision.build.ranks_per_node = costs.levels.front().span;
    }
  }
  if (options.segments != 0 && !properties(decision.algorithm).segmented) {
    throw Error(ErrorKind::Usage,
                fmt::format("--segments: {} has no segments; use chain or double-tree",
                            to_text(decision.algorithm)));
  }
  if (options.per_node != 0 && !properties(decision.algorithm).two_level) {
    throw Error(ErrorKind::Usage, fmt::format("--per-node: {} ignores nodes; use two-level",
                                              to_text(decision.algorithm)));
  }
  if (options.segments != 0) {
    decision.build.segments = options.segments;
  }
  return decision;
}

/// A file names its operation, so one on the command line is an error.
simulate::ScheduleReport report_from_file(const Options& options, const Payload& payload,
                                          const CostModel& costs) {
  if (!options.operation.empty()) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("--file: the file names its operation; leave out '{}'", options.operation));
  }
  Schedule schedule = parsed(options.file, read_file(options.file), parse_schedule);
  return simulate::make_schedule_report(std::move(schedule), payload, costs);
}

simulate::ScheduleReport report_from_catalog(const Options& options, const Payload& payload,
                                             const CostModel& costs) {
  const Operation operation = required_operation(options);
  const Bytes bytes{operation == Operation::Barrier ? 0 : payload.elements * payload.element_bytes};
  const Decision decision = decide(options, operation, bytes, costs);
  simulate::ScheduleReport report = simulate::make_schedule_report(
      simulate::ScheduleRecipe{operation, decision.algorithm, decision.build}, payload, costs);
  report.reason = decision.reason;
  return report;
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
  const Operation operation = required_operation(options);
  check_numbers(options, operation);
  const simulate::SizeRange range = parsed("--sizes", options.sizes, simulate::parse_size_range);
  Selector selector(costs);
  const auto compare_by = [&](double factor) {
    const Selector::Query query{
        .operation = operation, .ranks = options.ranks, .root = options.root};
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
  if (options.ranks > kQuick) {
    patience.emplace(fmt::format("{} ranks", options.ranks));
  }
  const Payload payload = make_payload(options);
  simulate::ScheduleReport report = options.file.empty()
                                        ? report_from_catalog(options, payload, costs)
                                        : report_from_file(options, payload, costs);
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
  command.add_option("operation", o.operation, "one of: " + names_of(all_operations()));
  auto* file = command.add_option("--file", o.file, "show the schedule in this file instead");
  command
      .add_option("-a,--algorithm", o.algorithm,
                  "one of: auto (the fastest) " + names_of(all_algorithms()))
      ->excludes(file);
  command.add_option("-n,--ranks", o.ranks, "number of ranks")->excludes(file);
  command.add_option("--root", o.root, "the root of broadcast, reduce, scatter, gather")
      ->excludes(file);
  command.add_option("-s,--size", o.size,
                     "bytes of the whole vector (alltoall: of one rank's send buffer)");
  command.add_option("--dtype", o.dtype, "element type; blocks hold whole elements");
  command.add_option("--segments", o.segments,
                     "segments of chain and double-tree (default: the best)",
                     integer_in(1, 1 << 20));
  command.add_option(
      "--per-node", o.per_node,
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
