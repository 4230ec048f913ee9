// The clusters that Trireme knows by name, as tables.
//
// Contains only numbers that a vendor's document states; the others are omitted. NVLink figures are the sum of both
// directions, so one direction is half.
#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "cluster/names.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

/// One side of a link: seconds per message, bytes per second in one direction, and the source of
/// the latter.
struct LinkRow {
  double alpha;
  double bytes_per_second;
  const char* source;
};

struct ClusterRow {
  std::string_view name;
  int nodes;
  int devices_per_node;
  std::string_view device;
  std::optional<LinkRow> node;     ///< nothing: `network` joins all devices, in a node or not
  std::optional<LinkRow> network;  ///< nothing: one node only
  double gamma;
  std::vector<std::string> notes;
};

/// A reduction reads both operands and writes the result: three passes over the device's memory.
double three_passes(double memory_bytes_per_second) {
  return 3 / memory_bytes_per_second;
}

const char* const kAssumedAlpha =
    "Assumed: alpha (2 us in a node, 5 us between nodes) is in no specification; measure it where "
    "it matters.";
const char* const kAssumedTorusAlpha =
    "Assumed: alpha (2 us) is in no specification; measure it where it matters.";
const char* const kAssumedGamma =
    "Assumed: gamma is three passes over device memory at its full bandwidth for each byte "
    "reduced.";
const char* const kOneWay =
    "Links count one direction: half of NVLink's total, all of a network card's rate.";

const char* const kTorus =
    "A torus, not a switch: the rate is that of a chip's six links together. A ring along one "
    "axis of the torus uses two of them.";

std::vector<ClusterRow> volta_to_hopper() {
  return {
      {.name = "dgx-v100",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "v100",
       .node =
           LinkRow{2e-6, 150e9, "NVIDIA V100 datasheet: NVLink 300 GB/s, both directions together"},
       .network = LinkRow{5e-6, 6.25e9,
                          "NVIDIA DGX-1 with Tesla V100 System Architecture whitepaper: four 100 "
                          "Gb/s InfiniBand cards for eight GPUs"},
       .gamma = three_passes(900e9),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay,
                 "A DGX-1: NVLink is a hybrid cube mesh, not a switch, so only collectives that "
                 "use all six links of a GPU reach its rate."}},
      {.name = "dgx-a100",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "a100",
       .node =
           LinkRow{2e-6, 300e9, "NVIDIA A100 datasheet: NVLink 600 GB/s, both directions together"},
       .network =
           LinkRow{5e-6, 25e9, "NVIDIA DGX A100 user guide: one 200 Gb/s InfiniBand card per GPU"},
       .gamma = three_passes(2039e9),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}},
      {.name = "dgx-h100",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "h100",
       .node =
           LinkRow{2e-6, 450e9, "NVIDIA H100 datasheet: NVLink 900 GB/s, both directions together"},
       .network =
           LinkRow{5e-6, 50e9, "NVIDIA DGX H100 user guide: one 400 Gb/s InfiniBand card per GPU"},
       .gamma = three_passes(3.35e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}},
      {.name = "dgx-h200",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "h200",
       .node =
           LinkRow{2e-6, 450e9, "NVIDIA H200 datasheet: NVLink 900 GB/s, both directions together"},
       .network =
           LinkRow{5e-6, 50e9, "NVIDIA DGX H200 user guide: one 400 Gb/s InfiniBand card per GPU"},
       .gamma = three_passes(4.8e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}}};
}

std::vector<ClusterRow> blackwell() {
  return {
      {.name = "hgx-b100",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "b100",
       .node = LinkRow{2e-6, 900e9,
                       "NVIDIA Blackwell Architecture technical brief: NVLink 1.8 TB/s, both "
                       "directions together"},
       .network = LinkRow{5e-6, 50e9,
                          "assumed: one 400 Gb/s card per GPU, as in the DGX H100 whose boards it "
                          "replaces; the HGX board has no network"},
       .gamma = three_passes(8e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}},
      {.name = "dgx-b200",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "b200",
       .node = LinkRow{2e-6, 900e9,
                       "NVIDIA DGX B200 datasheet: NVLink 14.4 TB/s for 8 GPUs, both directions "
                       "together"},
       .network =
           LinkRow{5e-6, 50e9, "NVIDIA DGX B200 user guide: one 400 Gb/s InfiniBand card per GPU"},
       .gamma = three_passes(8e12),
       .notes = {kAssumedAlpha,
                 "Assumed: gamma is three passes over device memory at 8 TB/s for each byte "
                 "reduced (DGX B200 datasheet: 64 TB/s for 8 GPUs; other documents say less).",
                 kOneWay}},
      {.name = "dgx-b300",
       .nodes = 1,
       .devices_per_node = 8,
       .device = "b300",
       .node = LinkRow{2e-6, 900e9,
                       "NVIDIA DGX B300 datasheet: NVLink 14.4 TB/s for 8 GPUs, both directions "
                       "together"},
       .network = LinkRow{5e-6, 100e9, "NVIDIA DGX B300 user guide: one 800 Gb/s card per GPU"},
       .gamma = three_passes(8e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}},
      {.name = "nvl72-gb200",
       .nodes = 1,
       .devices_per_node = 72,
       .device = "gb200",
       .node =
           LinkRow{2e-6, 900e9, "NVIDIA GB200 NVL72 datasheet: NVLink 1.8 TB/s, both directions"},
       .network = LinkRow{5e-6, 50e9, "NVIDIA DGX GB200 user guide: one 400 Gb/s card per GPU"},
       .gamma = three_passes(8e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}},
      {.name = "nvl72-gb300",
       .nodes = 1,
       .devices_per_node = 72,
       .device = "gb300",
       .node =
           LinkRow{2e-6, 900e9, "NVIDIA GB300 NVL72 datasheet: NVLink 1.8 TB/s, both directions"},
       .network = LinkRow{5e-6, 100e9, "NVIDIA DGX GB300 user guide: one 800 Gb/s card per GPU"},
       .gamma = three_passes(8e12),
       .notes = {kAssumedAlpha, kAssumedGamma, kOneWay}}};
}

std::vector<ClusterRow> other_clusters() {
  return {
      {.name = "tpu-v4-pod",
       .nodes = 1024,
       .devices_per_node = 4,
       .device = "tpu-v4",
       .node = std::nullopt,
       .network = LinkRow{2e-6, 300e9,
                          "Jouppi et al., TPU v4: An Optically Reconfigurable Supercomputer, 2023: "
                          "six links of 50 GB/s per chip, 4096 chips"},
       .gamma = three_passes(1200e9),
       .notes = {kAssumedTorusAlpha, kAssumedGamma, kTorus}},
      {.name = "tpu-v5p-pod",
       .nodes = 2240,
       .devices_per_node = 4,
       .device = "tpu-v5p",
       .node = std::nullopt,
       .network =
           LinkRow{2e-6, 600e9,
                   "Google Cloud TPU documentation, TPU v5p: 1200 GB/s of ICI per chip, both "
                   "directions together, 8960 chips"},
       .gamma = three_passes(2765e9),
       .notes = {kAssumedTorusAlpha, kAssumedGamma, kTorus}},
      {.name = "cpu-10gbe",
       .nodes = 4,
       .devices_per_node = 1,
       .device = "cpu",
       .node = std::nullopt,
       .network = LinkRow{20e-6, 1.25e9, "IEEE 802.3ae: 10 Gb/s Ethernet, one direction"},
       .gamma = 1e-10,
       .notes = {"Assumed: alpha is a round number for TCP through a kernel and one switch, and "
                 "gamma one for a processor; measure yours."}},
      {.name = "figure-4x4",
       .nodes = 4,
       .devices_per_node = 4,
       .device = "a100-40gb",
       .node = LinkRow{1e-6, 100e9, "assumed: a fast link"},
       .network = LinkRow{10e-6, 10e9, "assumed: a slow link"},
       .gamma = 1e-11,
       .notes = {"The textbook picture: 4 nodes of 4 devices, fast links in a node, slow links "
                 "between nodes.",
                 "Assumed: the picture has no numbers, so links, gamma and the kind of device are "
                 "all chosen here."}},
      {.name = "laptop",
       .nodes = 1,
       .devices_per_node = 2,
       .device = "cpu",
       .node = LinkRow{1e-6, 10e9, "assumed: two processes that share memory"},
       .network = std::nullopt,
       .gamma = 1e-10,
       .notes = {"Assumed: alpha, beta and gamma are round numbers for two processes on one "
                 "machine; measure yours."}}};
}

/// By generation.
std::vector<ClusterRow> all_clusters() {
  std::vector<ClusterRow> all = volta_to_hopper();
  for (const auto& more : {blackwell(), other_clusters()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

const std::vector<ClusterRow>& cluster_table() {
  static const std::vector<ClusterRow> table = all_clusters();
  return table;
}

Link to_link(const LinkRow& row, const char* level, int reach) {
  return {.level = level,
          .reach = reach,
          .alpha = {row.alpha},
          .beta = {1 / row.bytes_per_second},
          .source = row.source};
}

Cluster build(const ClusterRow& row, int nodes) {
  Cluster cluster{
      .name = nodes == row.nodes ? std::string(row.name) : fmt::format("{}:{}", row.name, nodes),
      .nodes = nodes,
      .devices_per_node = row.devices_per_node,
      .device = device_preset(row.device),
      .links = {},
      .gamma = {row.gamma},
      .notes = row.notes};
  if (row.node) {
    cluster.links.push_back(to_link(*row.node, "node", row.devices_per_node));
  }
  const int joined = row.node ? row.devices_per_node : 1;
  if (cluster.devices() > joined) {
    TRIREME_CHECK(row.network.has_value(), cluster.name);
    cluster.links.push_back(to_link(*row.network, "network", cluster.devices()));
  }
  const std::vector<std::string> found = problems(cluster);
  TRIREME_CHECK(found.empty(), cluster.name + ": " + found.front());
  return cluster;
}

const ClusterRow& find_cluster_row(std::string_view name) {
  for (const ClusterRow& row : cluster_table()) {
    if (row.name == name) {
      return row;
    }
  }
  throw Error(ErrorKind::Usage, unknown_name("cluster", name, cluster_preset_names()));
}

/// A preset's name and the number of its nodes, as text: "dgx-h100:4" or "4xdgx-h100".
struct PresetName {
  std::string_view name;
  std::optional<std::string_view> nodes;
};

PresetName split_name(std::string_view text) {
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    return {text.substr(0, colon), text.substr(colon + 1)};
  }
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits != 0 && digits != std::string_view::npos && text[digits] == 'x') {
    return {text.substr(digits + 1), text.substr(0, digits)};
  }
  return {text, std::nullopt};
}

int parse_nodes(const ClusterRow& row, std::string_view text) {
  constexpr std::int64_t kMaxNodes = 65536;
  const std::optional<std::int64_t> nodes = parse_integer(text);
  if (!nodes || *nodes < 1 || *nodes > kMaxNodes) {
    throw Error(ErrorKind::Usage,
                fmt::format("cluster '{}:{}': '{}' is not a number of nodes from 1 to {}", row.name,
                            text, text, kMaxNodes));
  }
  if (!row.network && *nodes != 1) {
    throw Error(ErrorKind::Usage,
                fmt::format("cluster '{}' has one node and no network, not {}", row.name, *nodes));
  }
  return static_cast<int>(*nodes);
}

}  // namespace

std::vector<std::string> cluster_preset_names() {
  std::vector<std::string> names;
  for (const ClusterRow& row : cluster_table()) {
    names.emplace_back(row.name);
  }
  return names;
}

namespace {

Cluster uniform_preset(std::string_view name) {
  const PresetName given = split_name(name);
  const ClusterRow& row = find_cluster_row(to_lower(given.name));
  return build(row, given.nodes ? parse_nodes(row, *given.nodes) : row.nodes);
}

/// Nodes of a preset in a cluster of `devices` devices.
NodeKind preset_nodes(std::string_view name, int devices) {
  const PresetName given = split_name(name);
  const ClusterRow& row = find_cluster_row(to_lower(given.name));
  if (!row.node || !row.network) {
    throw Error(ErrorKind::Usage,
                fmt::format("'{}' cannot be combined with others: it has no links in a "
                            "node and between nodes; write a cluster file",
                            name));
  }
  NodeKind kind{.nodes = uniform_preset(name).nodes, .device = device_preset(row.device)};
  kind.links = {to_link(*row.node, "node", row.devices_per_node),
                to_link(*row.network, "network", devices)};
  return kind;
}

std::vector<std::string_view> split_parts(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t plus = 0; plus != std::string_view::npos;) {
    plus = name.find('+');
    parts.push_back(name.substr(0, plus));
    name.remove_prefix(plus == std::string_view::npos ? 0 : plus + 1);
  }
  return parts;
}

Cluster mixed_preset(std::string_view name) {
  Cluster cluster{.name = std::string(name), .nodes = 0};
  for (const std::string_view part : split_parts(name)) {
    const Cluster nodes = uniform_preset(part);
    if (cluster.nodes > 0 && nodes.devices_per_node != cluster.devices_per_node) {
      throw Error(ErrorKind::Usage,
                  fmt::format("cluster '{}': nodes of {} and of {} devices; all nodes need equally "
                              "many",
                              name, cluster.devices_per_node, nodes.devices_per_node));
    }
    cluster.nodes += nodes.nodes;
    cluster.devices_per_node = nodes.devices_per_node;
    cluster.gamma = std::max(cluster.gamma, nodes.gamma);
    for (const std::string& note : nodes.notes) {
      if (std::ranges::find(cluster.notes, note) == cluster.notes.end()) {
        cluster.notes.push_back(note);
      }
    }
  }
  for (const std::string_view part : split_parts(name)) {
    cluster.kinds.push_back(preset_nodes(part, cluster.devices()));
  }
  return with_weakest(std::move(cluster));
}

}  // namespace

Cluster cluster_preset(std::string_view name) {
  return name.find('+') == std::string_view::npos ? uniform_preset(name) : mixed_preset(name);
}

}  // namespace trireme
