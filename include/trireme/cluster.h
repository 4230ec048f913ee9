// Cluster: the hardware: devices with their peak rates and memory, the links between them, level by level, and how fast
// a device reduces.
//
// A number that no document states is absent, never guessed; the cluster's notes list the assumptions. Plain values;
// all functions may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/efficiency.h"
#include "trireme/host_costs.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// Operations per second: floating-point ones, or integer ones for an integer type.
struct FlopRate {
  double count = 0;
  friend bool operator==(const FlopRate&, const FlopRate&) = default;
};

/// Bytes per second.
struct ByteRate {
  double count = 0;
  friend bool operator==(const ByteRate&, const ByteRate&) = default;
};

/// Power in watts.
struct Power {
  double watts = 0;
  friend bool operator==(const Power&, const Power&) = default;
};

/// "989.4 TFLOP/s", "3.35 TB/s": powers of 1000, five significant digits.
[[nodiscard]] std::string to_text(FlopRate rate);
[[nodiscard]] std::string to_text(ByteRate rate);

/// Which of a vendor's two peaks: Structured is the peak with 2:4 sparsity, which dense training does not reach.
enum class Sparsity { Dense, Structured };
[[nodiscard]] std::string_view to_text(Sparsity sparsity);

/// The peak rates of a device for one number type. Types: f64 f32 (the standard units), f64-tensor
/// tf32 bf16 f16 f8 f6 f4 i8 i4 (the matrix units).
struct Peak {
  std::string dtype{};
  std::optional<FlopRate> dense{};
  std::optional<FlopRate> sparse{};
  friend bool operator==(const Peak&, const Peak&) = default;
};

/// Of renting a device.
struct Price {
  double dollars_per_hour = 0;
  friend bool operator==(const Price&, const Price&) = default;
};

struct DeviceSpec {
  std::string name{};
  std::optional<Bytes> memory{};
  std::optional<ByteRate> memory_bandwidth{};
  std::vector<Peak> peaks{};
  std::optional<Power> power{};  ///< maximum draw, excluding the host
  std::optional<Price> price{};
  std::string source{};  ///< the document that the numbers come from

  /// The peak for a type ("bf16"; "BF16", "FP16" and "INT8" are also accepted), or nullopt if no document states it.
  /// Throws Error(Usage) on an unknown type.
  [[nodiscard]] std::optional<FlopRate> peak(std::string_view dtype,
                                             Sparsity sparsity = Sparsity::Dense) const;

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

/// How the devices of one level communicate. A message of n bytes costs alpha + n * beta in one
/// direction; the other direction can carry another message at the same time.
struct Link {
  std::string level{};  ///< "node", "network", or any name
  /// Joins each run of this many consecutive ranks: 8 joins 0..7, 8..15, …
  int reach = 0;
  Seconds alpha{};
  Seconds beta{};        ///< per byte
  std::string source{};  ///< where beta comes from

  friend bool operator==(const Link&, const Link&) = default;
};

/// The nodes of one kind in a heterogeneous cluster.
struct NodeKind {
  int nodes = 1;
  DeviceSpec device{};
  std::vector<Link> links{};  ///< as in Cluster: the same levels and reaches
  std::optional<Efficiency> efficiency{};

  friend bool operator==(const NodeKind&, const NodeKind&) = default;
};

/// `nodes` machines with `devices_per_node` devices each, identical unless `kinds` says otherwise, numbered node by node: with 8
/// per node, rank 11 is the fourth device of node 1.
struct Cluster {
  std::string name{};
  int nodes = 1;
  int devices_per_node = 1;
  DeviceSpec device{};
  std::vector<Link> links{};        ///< innermost (smallest reach) first; the last reaches all
  Seconds gamma{};                  ///< per byte: combining one received byte with local data
  std::optional<HostCosts> host{};  ///< if the host was measured
  std::optional<Efficiency> efficiency{};  ///< if measured or fitted; see efficiency_of()
  std::vector<std::string> notes{};        ///< caveats: which numbers are assumptions
  /// If nodes differ: their kinds, in node order, two or more. `device`, `links` and `efficiency` are then the weakest
  /// of them in every respect, because ranks wait for one another; see with_weakest().
  std::vector<NodeKind> kinds{};

  [[nodiscard]] int devices() const noexcept { return nodes * devices_per_node; }
  [[nodiscard]] int node_of(int rank) const noexcept { return rank / devices_per_node; }
  [[nodiscard]] bool is_mixed() const noexcept { return !kinds.empty(); }

  /// The innermost link that joins the two. Throws Error(Usage) if a rank is not in the cluster,
  /// the ranks are equal, or no link joins them.
  [[nodiscard]] const Link& link_between(int rank_a, int rank_b) const;

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// The cluster's own efficiency, or its device's default.
[[nodiscard]] Efficiency efficiency_of(const Cluster& cluster);

// Heterogeneous clusters.

/// The cluster reduced to its nodes of one kind.
[[nodiscard]] Cluster nodes_of_kind(const Cluster& cluster, std::size_t kind);
/// The cluster with `device`, `links` and `gamma` set to the weakest of its kinds, and `efficiency` to that of the kind
/// whose matrix units are slowest. Requires kinds.
[[nodiscard]] Cluster with_weakest(Cluster cluster);

/// What is wrong, in words; empty if nothing. The functions of Cluster require an empty answer.
[[nodiscard]] std::vector<std::string> problems(const Cluster& cluster);

/// The `.cluster.json` text. Reads back as an equal cluster.
[[nodiscard]] std::string to_text(const Cluster& cluster);

/// A device as it appears in the `.cluster.json` text.
[[nodiscard]] std::string to_text(const DeviceSpec& device);

/// Reads a `.cluster.json` text; the result has no problems(). Throws Error(Input) that names
/// the line or the field.
[[nodiscard]] Cluster parse_cluster(std::string_view text);

[[nodiscard]] std::vector<std::string> device_preset_names();
[[nodiscard]] std::vector<std::string> cluster_preset_names();

/// "h100", … in any case. Throws Error(Usage) listing the names.
[[nodiscard]] DeviceSpec device_preset(std::string_view name);
/// The preset of a product, such as "NVIDIA H200" or "NVIDIA A100-SXM4-80GB"; nullopt if there is none.
[[nodiscard]] std::optional<DeviceSpec> find_device_preset(std::string_view product);

/// "dgx-h100", or "dgx-h100:4" or "4xdgx-h100" for four such nodes, or "2xdgx-a100+1xdgx-h100" for different ones. Throws Error(Usage) naming the nearest match,
/// or listing all.
[[nodiscard]] Cluster cluster_preset(std::string_view name);

}  // namespace trireme
