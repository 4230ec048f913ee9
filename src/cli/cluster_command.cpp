// `trireme cluster`: lists the presets, or shows one cluster as text or JSON.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "report/cluster_text.h"
#include "trireme/cluster.h"

namespace trireme::cli {
namespace {

struct Options {
  std::string cluster;
  bool json = false;
};

std::string output(const Options& options) {
  if (options.cluster.empty()) {
    return options.json ? report::preset_list_json() : report::preset_list_text();
  }
  const Cluster cluster = load_cluster(options.cluster);
  return options.json ? to_text(cluster) : report::cluster_text(cluster);
}

}  // namespace

void add_cluster_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command =
      app.add_subcommand("cluster", "Show what a cluster is made of, or list the known ones");
  command->add_option("cluster", options->cluster,
                      "a preset such as dgx-h100 or dgx-h100:4, or a .cluster.json file");
  command->add_flag("--json", options->json,
                    "print the text form, which reads back, instead of a description");
  command->callback([options] { fmt::print("{}", output(*options)); });
}

}  // namespace trireme::cli
