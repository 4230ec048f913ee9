// `trireme repartition`: from one layout of a matrix to another, what moves and how long it takes.
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cli/commands.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/repartition_text.h"
#include "trireme/cpu_device.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

struct RepartitionArguments {
  std::string from;
  std::string to;
  std::string shape = "512x512";
  std::string dtype = "f32";
  int ranks = 4;
  std::string alpha = "1us";
  std::string beta = "1ns";
  std::string gamma = "0.1ns";
  bool run = false;
  bool json = false;
};

std::vector<predict::MatrixLayout> layouts(const char* option, const std::string& name) {
  return name.empty() ? std::vector(predict::kLayouts.begin(), predict::kLayouts.end())
                      : std::vector{parsed(option, name, predict::parse_layout)};
}

struct MatrixPair {
  predict::MatrixLayout from;
  predict::MatrixLayout to;
};

/// The pairs that the options name. Without names, all pairs that move data.
std::vector<MatrixPair> pairs(const RepartitionArguments& args) {
  std::vector<MatrixPair> result;
  for (const predict::MatrixLayout from : layouts("--from", args.from)) {
    for (const predict::MatrixLayout to : layouts("--to", args.to)) {
      if (from != to || !args.from.empty()) {
        result.push_back({from, to});
      }
    }
  }
  return result;
}

Shape parse_matrix(const std::string& text) {
  const std::size_t x = text.find('x');
  require(x != std::string::npos,
          in_quotes(text) + " is not rows x columns; write it like 512x256");
  return parse_shape("[" + text.substr(0, x) + "," + text.substr(x + 1) + "]");
}

report::RepartitionRow make_row(const TensorType& type, MatrixPair pair, const CostModel& costs,
                                const RepartitionArguments& args) {
  report::RepartitionRow row;
  row.predicted = predict::repartition(type, pair.from, pair.to, args.ranks, costs);
  if (args.run) {
    const auto device = [] { return make_cpu_device({.threads = 1, .pinned = false}); };
    row.run = measure::run_repartition(row.predicted, device);
  }
  return row;
}

void run(const RepartitionArguments& args, Outcome& outcome) {
  const TensorType type{parsed("--dtype", args.dtype, parse_dtype),
                        parsed("--shape", args.shape, parse_matrix)};
  const CostModel costs = CostModel::uniform(parsed("--alpha", args.alpha, parse_seconds),
                                             parsed("--beta", args.beta, parse_seconds),
                                             parsed("--gamma", args.gamma, parse_seconds));
  std::vector<report::RepartitionRow> rows;
  for (const MatrixPair& pair : pairs(args)) {
    rows.push_back(make_row(type, pair, costs, args));
    outcome.exit_code = rows.back().is_right() ? outcome.exit_code : 1;
  }
  std::cout << (args.json ? report::repartition_json(rows)
                          : report::repartition_text(rows, standard_output()));
}

}  // namespace

void add_repartition_command(Command& app, Outcome& outcome) {
  auto given = std::make_shared<RepartitionArguments>();
  RepartitionArguments& args = *given;
  Command* command = app.add_subcommand(
      "repartition", "Show what repartitioning a matrix costs in bytes and time");
  command->add_option("--from", args.from, "one of: replicated row column partial (default: all)");
  command->add_option("--to", args.to, "one of: replicated row column partial (default: all)");
  command->add_option("--shape", args.shape, "rows x columns, such as 512x256");
  command->add_option("--dtype", args.dtype, "one of: f32 f64 f16 bf16");
  command->add_option("-n,--ranks", args.ranks, "number of ranks", integer_in(1, 1 << 10));
  for (const auto& [option, value, what] :
       {std::tuple{"--alpha", &args.alpha, "latency of a message"},
        std::tuple{"--beta", &args.beta, "time per byte moved"},
        std::tuple{"--gamma", &args.gamma, "time per byte combined"}}) {
    command->add_option(option, *value, what);
  }
  command->add_flag("--run", args.run, "also execute it on threads and compare result and bytes");
  command->add_flag("--json", args.json, "one JSON object");
  command->callback([given, &outcome] {
    const Patience patience;
    run(*given, outcome);
  });
}

}  // namespace trireme::cli
