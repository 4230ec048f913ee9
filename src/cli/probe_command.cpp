// `trireme probe`: measures this host and saves its costs for the other commands.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/host_file.h"
#include "report/probe_text.h"
#include "trireme/bench.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme probe                                  measure, print, save for 'trireme bench'\n"
    "  trireme probe --quick --json | jq .host.waits\n"
    "  trireme probe --output here.cluster.json && trireme schedule allreduce --cluster "
    "here.cluster.json\n"
    "\n"
    "Times are means with their 95 % confidence intervals; a message of n bytes takes alpha + "
    "n*beta.";

struct Options {
  Rank ranks = 0;
  std::string output;
  bool json = false;
  bool quick = false;
};

/// Creates the folder only for the default path: anywhere else, a missing folder is probably a mistake.
std::string prepare_output(const Options& options) {
  if (!options.output.empty()) {
    return options.output;
  }
  std::string path = host_file_path();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(ErrorKind::System,
                fmt::format("cannot create the folder '{}': {}", folder.string(), error.message()));
  }
  return path;
}

void run(const Options& options) {
  const std::string path = prepare_output(options);
  const bool show_progress = isatty(STDERR_FILENO) != 0;
  const measure::HostProbe probe =
      measure::probe_host({.ranks = options.ranks == 0 ? measure::allowed_cores() : options.ranks,
                           .quick = options.quick},
                          [&](const std::string& next) {
                            if (show_progress) {
                              fmt::print(stderr, "\r\x1b[K{} …", next);
                              std::fflush(stderr);
                            }
                          });
  if (show_progress) {
    fmt::print(stderr, "\r\x1b[K");
  }
  const Cluster cluster = measure::make_host_cluster(probe);
  fmt::print(
      "{}", options.json ? report::probe_json(cluster, probe) : report::probe_text(cluster, probe));
  write_and_report(path, to_text(cluster));
}

}  // namespace

void add_probe_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "probe", "Measure messages, waiting and memory of this host, for predictions");
  command
      ->add_option("-n,--ranks", options->ranks, "ranks that work together (default: one per core)")
      ->check(CLI::Range(1, measure::kMaxBenchRanks));
  command->add_option(
      "-o,--output", options->output,
      "write the cluster file here (default: in the user's cache folder, where the other "
      "commands find it)");
  command->add_flag("--json", options->json, "print the cluster file and the intervals");
  command->add_flag("--quick", options->quick, "smaller sizes only; a second or two");
  command->footer(kExamples);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
