// The devices and clusters that Trireme knows by name, as tables.
//
// Contains only numbers that a vendor's document states; the others are omitted. Vendors' GB and TB
// are powers of 1000. A vendor's "with sparsity" figure goes into the sparse column; the dense one
// is half of it. NVLink figures are the sum of both directions, so one direction is half.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "cluster/names.h"
#include "trireme/cluster.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme {
namespace {

constexpr std::int64_t kGB = 1'000'000'000;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

Peak dense_only(const char* dtype, double dense) {
  return {.dtype = dtype, .dense = FlopRate{dense}, .sparse = std::nullopt};
}

Peak both(const char* dtype, double dense, double sparse) {
  return {.dtype = dtype, .dense = FlopRate{dense}, .sparse = FlopRate{sparse}};
}

std::vector<Peak> a100_peaks() {
  return {dense_only("f64", 9.7e12),    dense_only("f64-tensor", 19.5e12),
          dense_only("f32", 19.5e12),   both("tf32", 156e12, 312e12),
          both("bf16", 312e12, 624e12), both("f16", 312e12, 624e12),
          both("i8", 624e12, 1248e12),  both("i4", 1248e12, 2496e12)};
}

std::vector<Peak> h100_peaks() {
  return {dense_only("f64", 34e12),          dense_only("f64-tensor", 67e12),
          dense_only("f32", 67e12),          both("tf32", 494.7e12, 989.4e12),
          both("bf16", 989.4e12, 1978.9e12), both("f16", 989.4e12, 1978.9e12),
          both("f8", 1978.9e12, 3957.8e12),  both("i8", 1978.9e12, 3957.8e12)};
}

std::vector<DeviceSpec> volta_to_hopper_devices() {
  return {
      {.name = "v100",
       .memory = Bytes{32 * kGB},
       .memory_bandwidth = ByteRate{900e9},
       .peaks = {dense_only("f64", 7.8e12), dense_only("f32", 15.7e12), dense_only("f16", 125e12)},
       .power = Power{300},
       .source = "NVIDIA V100 Tensor Core GPU datasheet, SXM2 column (32 GB version)"},
      {.name = "v100-pcie",
       .memory = Bytes{32 * kGB},
       .memory_bandwidth = ByteRate{900e9},
       .peaks = {dense_only("f64", 7e12), dense_only("f32", 14e12), dense_only("f16", 112e12)},
       .power = Power{250},
       .source = "NVIDIA V100 Tensor Core GPU datasheet, PCIe column (32 GB version)"},
      {.name = "a100",
       .memory = Bytes{80 * kGB},
       .memory_bandwidth = ByteRate{2039e9},
       .peaks = a100_peaks(),
       .power = Power{400},
       .source = "NVIDIA A100 Tensor Core GPU datasheet, 80GB SXM column"},
      {.name = "a100-40gb",
       .memory = Bytes{40 * kGB},
       .memory_bandwidth = ByteRate{1555e9},
       .peaks = a100_peaks(),
       .power = Power{400},
       .source = "NVIDIA A100 Tensor Core GPU datasheet, 40GB SXM column"},
      {.name = "h100",
       .memory = Bytes{80 * kGB},
       .memory_bandwidth = ByteRate{3.35e12},
       .peaks = h100_peaks(),
       .power = Power{700},
       .source = "NVIDIA H100 Tensor Core GPU datasheet, SXM column (f64, f32, memory); NVIDIA "
                 "H100 Tensor Core GPU "
                 "Architecture whitepaper, H100 SXM5 (tf32, bf16, f16, f8, i8)"},
      {.name = "h100-96gb",
       .memory = Bytes{96 * kGB},
       .memory_bandwidth = ByteRate{2.4e12},
       .peaks = h100_peaks(),
       .power = Power{500},
       .source = "torchtitan benchmarks: H100 with 96 GB of HBM2e, limited to 500 W; peaks as for "
                 "h100, which it states; the bandwidth is assumed"},
      {.name = "h200",
       .memory = Bytes{141 * kGB},
       .memory_bandwidth = ByteRate{4.8e12},
       .peaks = {dense_only("f64", 34e12), dense_only("f64-tensor", 67e12),
                 dense_only("f32", 67e12), both("tf32", 494.5e12, 989e12),
                 both("bf16", 989.5e12, 1979e12), both("f16", 989.5e12, 1979e12),
                 both("f8", 1979e12, 3958e12), both("i8", 1979e12, 3958e12)},
       .power = Power{700},
       .source = "NVIDIA H200 Tensor Core GPU datasheet, SXM column; it states the sparse peaks, "
                 "the dense ones are half"}};
}

std::vector<DeviceSpec> blackwell_devices() {
  return {
      {.name = "b100",
       .memory = Bytes{192 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {dense_only("f64", 30e12), dense_only("f32", 60e12), both("tf32", 900e12, 1800e12),
                 both("bf16", 1750e12, 3500e12), both("f16", 1750e12, 3500e12),
                 both("f8", 3500e12, 7000e12), both("f6", 3500e12, 7000e12),
                 both("f4", 7000e12, 14000e12), both("i8", 3500e12, 7000e12)},
       .source = "NVIDIA Blackwell Architecture technical brief, HGX B100 column, which says 'up "
                 "to' 192 GB and 8 TB/s; the dense peaks are half of the sparse ones"},
      {.name = "b200",
       .memory = Bytes{180 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2250e12, 4500e12), both("f16", 2250e12, 4500e12),
                 both("f8", 4500e12, 9000e12), both("f6", 4500e12, 9000e12),
                 both("f4", 9000e12, 18000e12), both("i8", 4500e12, 9000e12)},
       .source = "NVIDIA Blackwell datasheet, HGX B200 column, and DGX B200 user guide (1440 GB "
                 "for 8); it states the sparse peaks, the dense ones are half. Memory bandwidth: "
                 "DGX B200 datasheet, 64 TB/s for 8 (other documents say less). Left out because "
                 "not confirmed: tf32, f32 and f64"},
      {.name = "b300",
       .memory = Bytes{270 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2250e12, 4500e12), both("f16", 2250e12, 4500e12),
                 both("f8", 4500e12, 9000e12), both("f6", 4500e12, 9000e12),
                 dense_only("f4", 13500e12)},
       .source =
           "NVIDIA HGX B300 specifications, divided by 8; it states the sparse peaks, the dense "
           "ones are half, but for f4, of which it states both"},
      {.name = "gb200",
       .memory = Bytes{186 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2500e12, 5000e12), both("f16", 2500e12, 5000e12),
                 both("f8", 5000e12, 10000e12), both("f6", 5000e12, 10000e12),
                 both("f4", 10000e12, 20000e12)},
       .source = "NVIDIA GB200 NVL72 datasheet, divided by 72; it states the sparse peaks, the "
                 "dense ones are half"},
      {.name = "gb300",
       .memory = Bytes{279 * kGB},
       .memory_bandwidth = ByteRate{8e12},
       .peaks = {both("bf16", 2500e12, 5000e12), both("f16", 2500e12, 5000e12),
                 both("f8", 5000e12, 10000e12), both("f6", 5000e12, 10000e12),
                 dense_only("f4", 15000e12)},
       .source = "NVIDIA GB300 NVL72 datasheet, divided by 72"}};
}

std::vector<DeviceSpec> other_devices() {
  return {{.name = "tpu-v3",
           .memory = Bytes{32 * kGiB},
           .memory_bandwidth = ByteRate{900e9},
           .peaks = {dense_only("bf16", 123e12)},
           .source = "Google Cloud TPU documentation, TPU v3, per chip"},
          {.name = "tpu-v4",
           .memory = Bytes{32 * kGiB},
           .memory_bandwidth = ByteRate{1200e9},
           .peaks = {dense_only("bf16", 275e12), dense_only("i8", 275e12)},
           .source = "Google Cloud TPU documentation, TPU v4, per chip"},
          {.name = "tpu-v5e",
           .memory = Bytes{16 * kGB},
           .memory_bandwidth = ByteRate{819e9},
           .peaks = {dense_only("bf16", 197e12), dense_only("i8", 393e12)},
           .source =
               "Google Cloud TPU documentation, TPU v5e, per chip (some versions of the page give "
               "the bandwidth as 800 GiB/s)"},
          {.name = "tpu-v5p",
           .memory = Bytes{95 * kGB},
           .memory_bandwidth = ByteRate{2765e9},
           .peaks = {dense_only("bf16", 459e12)},
           .source = "Google Cloud TPU documentation, TPU v5p, per chip"},
          {.name = "cpu",
           .source = "none: processors differ, so nothing is known until it is measured"}};
}

template <class Row>
std::vector<Row> joined(std::vector<Row> first, const std::vector<Row>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const std::vector<DeviceSpec>& device_table() {
  static const std::vector<DeviceSpec> table =
      joined(joined(volta_to_hopper_devices(), blackwell_devices()), other_devices());
  return table;
}

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
                          "replaces; the HGX board has no network of its own"},
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

const std::vector<ClusterRow>& cluster_table() {
  static const std::vector<ClusterRow> table =
      joined(joined(volta_to_hopper(), blackwell()), other_clusters());
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

std::vector<std::string> device_preset_names() {
  std::vector<std::string> names;
  for (const DeviceSpec& device : device_table()) {
    names.push_back(device.name);
  }
  return names;
}

std::vector<std::string> cluster_preset_names() {
  std::vector<std::string> names;
  for (const ClusterRow& row : cluster_table()) {
    names.emplace_back(row.name);
  }
  return names;
}

std::optional<DeviceSpec> find_device_preset(std::string_view product) {
  std::string text;
  std::ranges::transform(product, std::back_inserter(text),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string best;
  for (const std::string& name : device_preset_names()) {
    const std::size_t at = text.find(name);
    const bool is_word = at != std::string::npos &&
                         (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0);
    if (is_word && name.size() > best.size()) {
      best = name;
    }
  }
  return best.empty() ? std::nullopt : std::optional(device_preset(best));
}

DeviceSpec device_preset(std::string_view name) {
  const std::string wanted = to_lower(name);
  for (const DeviceSpec& device : device_table()) {
    if (device.name == wanted) {
      return device;
    }
  }
  throw Error(ErrorKind::Usage, unknown_name("device", name, device_preset_names()));
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
                fmt::format("'{}' cannot be joined with others: it has no links of its own in a "
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
