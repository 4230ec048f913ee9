// `trireme repartition`: from one layout of a matrix to another, what moves and how long it takes.
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cli/commands.h"
#include "command_line/terminal.h"
#include "report/repartition_text.h"
#include "trireme/cpu_device.h"
#include "trireme/message.h"

namespace trireme::cli {
namespace {

struct Options {
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

/// Those that the options name. Of all pairs, those that move nothing are left out.
std::vector<MatrixPair> pairs(const Options& o) {
  std::vector<MatrixPair> result;
  for (const predict::MatrixLayout from : layouts("--from", o.from)) {
    for (const predict::MatrixLayout to : layouts("--to", o.to)) {
      if (from != to || !o.from.empty()) {
        result.push_back({from, to});
      }
    }
  }
  return result;
}

Shape parse_matrix(const std::string& text) {
  const std::size_t x = text.find('x');
  return x == std::string::npos
             ? parse_shape(text)
             : parse_shape("[" + text.substr(0, x) + "," + text.substr(x + 1) + "]");
}

report::RepartitionRow make_row(const TensorType& type, MatrixPair pair, const CostModel& costs,
                                const Options& o) {
  report::RepartitionRow row;
  row.predicted = predict::repartition(type, pair.from, pair.to, o.ranks, costs);
  if (o.run) {
    const auto device = [] { return make_cpu_device({.threads = 1, .pinned = false}); };
    row.run = measure::run_repartition(row.predicted, device);
  }
  return row;
}

void run(const Options& o, Outcome& outcome) {
  const TensorType type{parsed("--dtype", o.dtype, parse_dtype),
                        parsed("--shape", o.shape, parse_matrix)};
  const CostModel costs = CostModel::uniform(parsed("--alpha", o.alpha, parse_seconds),
                                             parsed("--beta", o.beta, parse_seconds),
                                             parsed("--gamma", o.gamma, parse_seconds));
  std::vector<report::RepartitionRow> rows;
  for (const MatrixPair& pair : pairs(o)) {
    rows.push_back(make_row(type, pair, costs, o));
    outcome.exit_code = rows.back().is_right() ? outcome.exit_code : 1;
  }
  std::cout << (o.json ? report::repartition_json(rows)
                       : report::repartition_text(rows, standard_output()));
}

}  // namespace

void add_repartition_command(Command& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  Options& o = *options;
  Command* command = app.add_subcommand(
      "repartition", "What moves from one layout of a matrix to another, in bytes and time");
  command->add_option("--from", o.from, "one of: replicated row column partial (default: all)");
  command->add_option("--to", o.to, "likewise");
  command->add_option("--shape", o.shape, "rows x columns");
  command->add_option("--dtype", o.dtype, "one of: f32 f64 f16 bf16");
  command->add_option("-n,--ranks", o.ranks, "ranks that share the matrix", integer_in(1, 1 << 10));
  for (const auto& [option, value, what] :
       {std::tuple{"--alpha", &o.alpha, "latency of a message"},
        std::tuple{"--beta", &o.beta, "time per byte moved"},
        std::tuple{"--gamma", &o.gamma, "time per byte combined"}}) {
    command->add_option(option, *value, what);
  }
  command->add_flag("--run", o.run, "also execute it on threads and compare result and bytes");
  command->add_flag("--json", o.json, "one JSON object");
  command->callback([options, &outcome] { run(*options, outcome); });
}

}  // namespace trireme::cli
