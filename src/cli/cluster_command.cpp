// `trireme cluster`: lists the presets, or shows one cluster as text or JSON.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "report/cluster_text.h"
#include "trireme/cluster.h"

namespace trireme::cli {
namespace {

struct ClusterArguments {
  std::string cluster;
  bool json = false;
};

std::string output(const ClusterArguments& args) {
  if (args.cluster.empty()) {
    return args.json ? report::preset_list_json() : report::preset_list_text();
  }
  const Cluster cluster = load_cluster(args.cluster);
  return args.json ? to_text(cluster) : report::cluster_text(cluster);
}

}  // namespace

void add_cluster_command(Command& app) {
  auto args = std::make_shared<ClusterArguments>();
  Command* command = app.add_subcommand("cluster", "Describe a cluster, or list the presets");
  command->add_option("cluster", args->cluster,
                      fmt::format("a .cluster.json file, several nodes such as dgx-h100:4, or one "
                                  "of: {}",
                                  fmt::join(cluster_preset_names(), " ")));
  command->add_flag("--json", args->json,
                    "print the text form, which reads back, instead of a description");
  command->callback([args] { fmt::print("{}", output(*args)); });
}

}  // namespace trireme::cli
