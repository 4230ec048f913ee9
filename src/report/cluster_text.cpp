#include "report/cluster_text.h"

#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "report/words.h"

namespace trireme::report {
namespace {

std::string memory_text(const std::optional<Bytes>& memory) {
  constexpr std::int64_t kGB = 1'000'000'000;
  if (!memory) {
    return kUnknown;
  }
  return memory->count % kGB == 0 ? fmt::format("{} GB", memory->count / kGB) : to_text(*memory);
}

template <class Rate>
std::string rate_or_unknown(const std::optional<Rate>& rate) {
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

std::string device_text(const DeviceSpec& device) {
  std::string out =
      fmt::format("device   {}: {} of memory at {}\n", device.name, memory_text(device.memory),
                  rate_or_unknown(device.memory_bandwidth));
  if (device.power) {
    out += fmt::format("         {:g} W at most\n", device.power->watts);
  }
  if (device.price) {
    out += fmt::format("         {:g} dollars per hour\n", device.price->dollars_per_hour);
  }
  if (device.peaks.empty()) {
    out += "         peak rates unknown\n";
  } else {
    out += fmt::format("         {:<12} {:>16} {:>16}\n", "peak", "dense", "sparse");
  }
  for (const Peak& peak : device.peaks) {
    out += fmt::format("         {:<12} {:>16} {:>16}\n", peak.dtype, rate_or_unknown(peak.dense),
                       peak.sparse ? to_text(*peak.sparse) : "-");
  }
  if (!device.source.empty()) {
    out += fmt::format("         source: {}\n", device.source);
  }
  return out;
}

std::string link_lines(const std::vector<Link>& links) {
  std::string out;
  for (const Link& link : links) {
    out += fmt::format("link     {}: joins {} devices, alpha {}, {} one way\n", link.level,
                       link.reach, to_text(link.alpha), speed_text(link.beta));
    if (!link.source.empty()) {
      out += fmt::format("         source: {}\n", link.source);
    }
  }
  return out;
}

}  // namespace

std::string cluster_text(const Cluster& cluster) {
  std::string out =
      fmt::format("{}: {} of {}, {} in all\n", cluster.name, plural(cluster.nodes, "node"),
                  plural(cluster.devices_per_node, "device"), cluster.devices());
  if (!cluster.is_mixed()) {
    out += device_text(cluster.device) + link_lines(cluster.links);
  }
  int node = 0;
  for (const NodeKind& kind : cluster.kinds) {
    out += fmt::format("nodes    {} to {}\n", node, node + kind.nodes - 1);
    out += device_text(kind.device) + link_lines(kind.links);
    node += kind.nodes;
  }
  out += fmt::format("gamma    {} per byte reduced, {}\n", to_text(cluster.gamma),
                     speed_text(cluster.gamma));
  for (const std::string& note : cluster.notes) {
    out += fmt::format("note     {}\n", note);
  }
  return out;
}

std::string preset_list_text() {
  std::string out = "Clusters (NAME, NAME:NODES or NODESxNAME; links are one way, per device)\n";
  out += fmt::format("  {:<12} {:>6} {:>14}  {:<10} {}\n", "name", "nodes", "devices/node",
                     "device", "links");
  for (const std::string& name : cluster_preset_names()) {
    const Cluster cluster = cluster_preset(name);
    out += fmt::format("  {:<12} {:>6} {:>14}  {:<10} {}\n", name, cluster.nodes,
                       cluster.devices_per_node, cluster.device.name, links_text(cluster));
  }
  out += "\nDevices (peaks are dense)\n";
  out += fmt::format("  {:<12} {:>8} {:>12} {:>16} {:>16}\n", "name", "memory", "bandwidth", "f16",
                     "bf16");
  for (const std::string& name : device_preset_names()) {
    const DeviceSpec device = device_preset(name);
    out += fmt::format("  {:<12} {:>8} {:>12} {:>16} {:>16}\n", name, memory_text(device.memory),
                       rate_or_unknown(device.memory_bandwidth),
                       rate_or_unknown(device.peak("f16")), rate_or_unknown(device.peak("bf16")));
  }
  return out;
}

std::string preset_list_json() {
  Json json;
  json["clusters"] = Json::array();
  for (const std::string& name : cluster_preset_names()) {
    json["clusters"].push_back(Json::parse(to_text(cluster_preset(name))));
  }
  json["devices"] = Json::array();
  for (const std::string& name : device_preset_names()) {
    json["devices"].push_back(Json::parse(to_text(device_preset(name))));
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::report
