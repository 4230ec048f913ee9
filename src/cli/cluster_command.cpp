// `trireme cluster`: lists the presets, or shows one cluster, for people or as JSON.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/load_cluster.h"
#include "trireme/cluster.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme cluster                       list the presets\n"
    "  trireme cluster dgx-h100:4            four nodes of eight H100\n"
    "  trireme cluster laptop --json > my.cluster.json\n"
    "                                        a file to edit and to name in place of a preset";

constexpr const char* kUnknown = "unknown";

struct Options {
  std::string cluster;
  bool json = false;
};

std::string memory_text(const std::optional<Bytes>& memory) {
  constexpr std::int64_t kGB = 1'000'000'000;
  if (!memory) {
    return kUnknown;
  }
  return memory->count % kGB == 0 ? fmt::format("{} GB", memory->count / kGB) : to_text(*memory);
}

template <class Rate>
std::string rate_text(const std::optional<Rate>& rate) {
  return rate ? to_text(*rate) : kUnknown;
}

std::string speed_text(Seconds per_byte) {
  return per_byte.count > 0 ? to_text(ByteRate{1 / per_byte.count}) : "no time per byte";
}

std::string links_text(const Cluster& cluster) {
  std::string text;
  for (const Link& link : cluster.links) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", link.level, speed_text(link.beta));
  }
  return text;
}

void print_lists() {
  fmt::print("Clusters (NAME, or NAME:NODES for more nodes; links are one way, per device)\n");
  fmt::print("  {:<12} {:>6} {:>14}  {:<10} {}\n", "name", "nodes", "devices/node", "device",
             "links");
  for (const std::string& name : cluster_preset_names()) {
    const Cluster cluster = cluster_preset(name);
    fmt::print("  {:<12} {:>6} {:>14}  {:<10} {}\n", name, cluster.nodes, cluster.devices_per_node,
               cluster.device.name, links_text(cluster));
  }
  fmt::print("\nDevices (peaks are dense)\n");
  fmt::print("  {:<12} {:>8} {:>12} {:>16} {:>16}\n", "name", "memory", "bandwidth", "f16", "bf16");
  for (const std::string& name : device_preset_names()) {
    const DeviceSpec device = device_preset(name);
    fmt::print("  {:<12} {:>8} {:>12} {:>16} {:>16}\n", name, memory_text(device.memory),
               rate_text(device.memory_bandwidth), rate_text(device.peak("f16")),
               rate_text(device.peak("bf16")));
  }
}

void print_lists_json() {
  Json json;
  json["clusters"] = Json::array();
  for (const std::string& name : cluster_preset_names()) {
    json["clusters"].push_back(Json::parse(to_text(cluster_preset(name))));
  }
  json["devices"] = Json::array();
  for (const std::string& name : device_preset_names()) {
    json["devices"].push_back(Json::parse(to_text(device_preset(name))));
  }
  fmt::print("{}\n", json.dump(2));
}

void print_device(const DeviceSpec& device) {
  fmt::print("device   {}: {} of memory at {}\n", device.name, memory_text(device.memory),
             rate_text(device.memory_bandwidth));
  if (device.peaks.empty()) {
    fmt::print("         peak rates unknown\n");
  } else {
    fmt::print("         {:<12} {:>16} {:>16}\n", "peak", "dense", "sparse");
  }
  for (const Peak& peak : device.peaks) {
    fmt::print("         {:<12} {:>16} {:>16}\n", peak.dtype, rate_text(peak.dense),
               peak.sparse ? to_text(*peak.sparse) : "-");
  }
  if (!device.source.empty()) {
    fmt::print("         source: {}\n", device.source);
  }
}

void print_cluster(const Cluster& cluster) {
  fmt::print("{}: {} node{} of {} device{}, {} in all\n", cluster.name, cluster.nodes,
             cluster.nodes == 1 ? "" : "s", cluster.devices_per_node,
             cluster.devices_per_node == 1 ? "" : "s", cluster.devices());
  print_device(cluster.device);
  for (const Link& link : cluster.links) {
    fmt::print("link     {}: joins {} devices, alpha {}, {} one way\n", link.level, link.reach,
               to_text(link.alpha), speed_text(link.beta));
    if (!link.source.empty()) {
      fmt::print("         source: {}\n", link.source);
    }
  }
  fmt::print("gamma    {} per byte reduced, {}\n", to_text(cluster.gamma),
             speed_text(cluster.gamma));
  for (const std::string& note : cluster.notes) {
    fmt::print("note     {}\n", note);
  }
}

void run(const Options& options) {
  if (options.cluster.empty()) {
    options.json ? print_lists_json() : print_lists();
    return;
  }
  const Cluster cluster = load_cluster(options.cluster);
  if (options.json) {
    fmt::print("{}", to_text(cluster));
  } else {
    print_cluster(cluster);
  }
}

}  // namespace

void add_cluster_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("cluster", "Show what a cluster is made of, or list the known ones");
  command->add_option("cluster", options->cluster,
                      "a preset such as dgx-h100 or dgx-h100:4, or a .cluster.json file");
  command->add_flag("--json", options->json,
                    "print the text form, which reads back, instead of a description");
  command->footer(kExamples);
  command->callback([options] { run(*options); });
}

}  // namespace trireme::cli
