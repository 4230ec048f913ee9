// `trireme probe`: measures this host and saves its costs for the other commands.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/measure_host.h"
#include "command_line/files.h"
#include "report/probe_text.h"
#include "trireme/bench.h"
#include "trireme/cluster.h"
#include "trireme/host_probe.h"

namespace trireme::cli {
namespace {

struct Options {
  Rank ranks = 0;
  std::string output;
  bool json = false;
  bool quick = false;
};

void run(const Options& options) {
  // Creates the folder only for the default path: anywhere else, a missing folder is probably a mistake.
  const std::string path = options.output.empty() ? writable_host_file() : options.output;
  const measure::HostProbe probe =
      measure_host({.ranks = options.ranks == 0 ? measure::allowed_cores() : options.ranks,
                    .quick = options.quick});
  const Cluster cluster = measure::make_host_cluster(probe);
  fmt::print(
      "{}", options.json ? report::probe_json(cluster, probe) : report::probe_text(cluster, probe));
  write_and_report(path, to_text(cluster));
}

}  // namespace

void add_probe_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "probe", "Measure messages, waiting, memory and kernels of this host, for predictions");
  command->add_option("-n,--ranks", options->ranks,
                      "ranks that work together (default: one per core)",
                      integer_in(1, measure::kMaxBenchRanks));
  command->add_option(
      "-o,--output", options->output,
      "write the cluster file here (default: in the user's cache folder, where the other "
      "commands find it)");
  command->add_flag("--json", options->json, "print the cluster file and the intervals");
  command->add_flag("--quick", options->quick, "smaller sizes only; a second or two");
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
