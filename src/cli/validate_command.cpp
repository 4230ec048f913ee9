// `trireme validate` and `trireme calibrate`: the cost model beside measured runs.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "command_line/files.h"
#include "command_line/terminal.h"
#include "report/validation_text.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/validation.h"

namespace trireme::cli {
namespace {

MeasuredRuns load_runs(const std::string& path) {
  MeasuredRuns runs = parse_runs(read_file(path), path);
  if (runs.runs.empty()) {
    throw Error(
        ErrorKind::Input,
        fmt::format("{}: none of its {} rows can be used{}", path, runs.skipped.size(),
                    runs.skipped.empty() ? ""
                                         : fmt::format("; line {}: {}", runs.skipped.front().line,
                                                       runs.skipped.front().reason)));
  }
  return runs;
}

struct ValidateOptions {
  std::string runs;
  ValidationOptions how;
  int worst = 10;
  bool json = false;
};

void run_validate(const ValidateOptions& o) {
  const MeasuredRuns runs = load_runs(o.runs);
  const Validation validation = validate(runs.runs, o.how);
  std::cout << (o.json ? report::validation_json(runs, validation)
                       : report::validation_text(
                             runs, validation,
                             {.terminal = standard_output(), .how = o.how, .worst = o.worst}));
}

struct CalibrateOptions {
  std::string runs;
  std::string cluster;
  std::string output;
};

void run_calibrate(const CalibrateOptions& o) {
  const MeasuredRuns measured = load_runs(o.runs);
  Cluster cluster = load_cluster(o.cluster);
  const Calibration calibration = calibrate(cluster, measured.runs, o.runs);
  cluster.efficiency = calibration.efficiency;
  if (o.output.empty()) {
    std::cout << to_text(cluster);
  } else {
    write_and_report(o.output, to_text(cluster));
  }
  fmt::print(stderr, "{} runs on {}: mean error {:.1f} % before, {:.1f} % after\n",
             calibration.runs, cluster.device.name, calibration.error_before,
             calibration.error_after);
}

}  // namespace

void add_validate_command(Command& app) {
  auto options = std::make_shared<ValidateOptions>();
  Command* command =
      app.add_subcommand("validate", "Compare predicted step times with measured training runs");
  command->add_option("--runs", options->runs, "a CSV file of measured runs")->required();
  command->add_option("--calibrate-on", options->how.share,
                      "share of each source's runs to calibrate on; the rest is predicted",
                      number_in(0.0, 0.9));
  command->add_option("--draws", options->how.draws, "random choices of these runs",
                      integer_in(1, 10000));
  command->add_option("--seed", options->how.seed, "of the random choices");
  command->add_option("--worst", options->worst, "how many of the worst predictions to list",
                      integer_in(0, 100000));
  command->add_flag("--json", options->json, "one JSON object");
  command->callback([options] { run_validate(*options); });
}

void add_calibrate_command(Command& app) {
  auto options = std::make_shared<CalibrateOptions>();
  Command* command =
      app.add_subcommand("calibrate", "Fit a cluster's efficiency to measured training runs");
  command->add_option("--runs", options->runs, "a CSV file of measured runs")->required();
  command->add_option("-c,--cluster", options->cluster, "a preset or a .cluster.json file")
      ->required();
  command->add_option("-o,--output", options->output,
                      "where to write the cluster (default: standard output)");
  command->callback([options] { run_calibrate(*options); });
}

}  // namespace trireme::cli
