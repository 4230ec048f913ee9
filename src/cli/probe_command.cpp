// `trireme probe`: measures this host and saves its costs for the other commands.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/measure_host.h"
#include "command_line/files.h"
#include "command_line/host_file.h"
#include "command_line/patience.h"
#include "report/probe_text.h"
#include "trireme/bench.h"
#include "trireme/cluster.h"
#include "trireme/cores.h"
#include "trireme/host_probe.h"

namespace trireme::cli {
namespace {

struct ProbeArguments {
  Rank ranks = 0;
  std::string output;
  bool json = false;
  bool quick = false;
};

void run(const ProbeArguments& args) {
  // Creates the folder only for the default path: anywhere else, a missing folder is probably a mistake.
  const std::string path = args.output.empty() ? writable_host_file() : args.output;
  const measure::HostProbe probe =
      measure_host({.ranks = args.ranks == 0 ? usable_cores() : args.ranks, .quick = args.quick});
  const Cluster cluster = measure::make_host_cluster(probe);
  fmt::print("{}",
             args.json ? report::probe_json(cluster, probe) : report::probe_text(cluster, probe));
  write_and_report(path, to_text(cluster));
}

}  // namespace

void add_probe_command(Command& app) {
  auto args = std::make_shared<ProbeArguments>();
  Command* command = app.add_subcommand(
      "probe", "Measure this host: message, memory and kernel costs for predictions");
  command->add_option("-n,--ranks", args->ranks, "number of ranks (default: one per core)",
                      integer_in(1, measure::kMaxBenchRanks));
  command->add_option(
      "-o,--output", args->output,
      "write the cluster file here (default: in the user's cache folder, where the other "
      "commands find it)",
      writable_path);
  command->add_flag("--json", args->json, "print the cluster file and the intervals");
  command->add_flag("--quick", args->quick, "smaller sizes only; a second or two");
  command->callback([args] {
    const Patience patience;
    run(*args);
  });
}

}  // namespace trireme::cli
