// `trireme validate` and `trireme calibrate`: compare the cost model with measured runs.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/validation_text.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/validation.h"

namespace trireme::cli {
namespace {

MeasuredRuns load_runs(const std::string& path) {
  MeasuredRuns runs = parsed(
      "--runs", path, [](const std::string& file) { return parse_runs(read_file(file), file); });
  if (runs.runs.empty()) {
    throw Error(
        ErrorKind::Input,
        fmt::format("{}: none of its {} rows is usable{}", path, runs.skipped.size(),
                    runs.skipped.empty() ? ""
                                         : fmt::format("; line {}: {}", runs.skipped.front().line,
                                                       runs.skipped.front().reason)));
  }
  return runs;
}

struct ValidateArguments {
  std::string runs;
  ValidationOptions how;
  int worst = 10;
  bool json = false;
};

void run_validate(const ValidateArguments& args) {
  const MeasuredRuns runs = load_runs(args.runs);
  const Validation validation = validate(runs.runs, args.how);
  std::cout << (args.json
                    ? report::validation_json(runs, validation)
                    : report::validation_text(
                          runs, validation,
                          {.terminal = standard_output(), .how = args.how, .worst = args.worst}));
}

struct CalibrateArguments {
  std::string runs;
  std::string cluster;
  std::string output;
};

void run_calibrate(const CalibrateArguments& args) {
  const MeasuredRuns measured = load_runs(args.runs);
  Cluster cluster = parsed("--cluster", args.cluster, load_cluster);
  const Calibration calibration = calibrate(cluster, measured.runs, args.runs);
  cluster.efficiency = calibration.efficiency;
  if (args.output.empty()) {
    std::cout << to_text(cluster);
  } else {
    write_and_report(args.output, to_text(cluster));
  }
  fmt::print(stderr, "{} runs on {}: mean error {:.1f} % before, {:.1f} % after\n",
             calibration.runs, cluster.device.name, calibration.error_before,
             calibration.error_after);
}

}  // namespace

void add_validate_command(Command& app) {
  auto args = std::make_shared<ValidateArguments>();
  Command* command =
      app.add_subcommand("validate", "Compare predicted step times with measured training runs");
  command->add_option("--runs", args->runs, "a CSV file of measured runs")->required();
  command->add_option("--calibrate-on", args->how.share,
                      "share of each source's runs to calibrate on; the rest is predicted",
                      number_in(0.0, 0.9));
  command->add_option("--draws", args->how.draws, "number of random draws of the calibration runs",
                      integer_in(1, 10000));
  command->add_option("--seed", args->how.seed, "random seed for the draws");
  command->add_option("--worst", args->worst, "how many of the worst predictions to list",
                      integer_in(0, 100000));
  command->add_flag("--json", args->json, "one JSON object");
  command->callback([args] {
    const Patience patience;
    run_validate(*args);
  });
}

void add_calibrate_command(Command& app) {
  auto args = std::make_shared<CalibrateArguments>();
  Command* command =
      app.add_subcommand("calibrate", "Fit a cluster's efficiency to measured training runs");
  command->add_option("--runs", args->runs, "a CSV file of measured runs")->required();
  command->add_option("-c,--cluster", args->cluster, "a preset or a .cluster.json file")
      ->required();
  command->add_option("-o,--output", args->output,
                      "where to write the cluster (default: standard output)", writable_path);
  command->callback([args] {
    const Patience patience;
    run_calibrate(*args);
  });
}

}  // namespace trireme::cli
