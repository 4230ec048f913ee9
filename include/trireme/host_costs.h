// HostCosts: the measured costs of communication and computation on one host.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/compute_costs.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// The time of a message of this length between two ranks: alone, and with an equal message in the other direction.
struct MessagePoint {
  Bytes bytes{};
  Seconds one_way{};
  Seconds exchange{};
  friend bool operator==(const MessagePoint&, const MessagePoint&) = default;
};

/// Messages between two ranks of one host: n bytes take roughly alpha + n * beta; measured points, if any, are more
/// accurate.
struct MessageCost {
  std::string transport{};  ///< "in-process", "shm", "tcp", "ucx"
  Seconds alpha{};
  Seconds beta{};                      ///< per byte
  std::vector<MessagePoint> points{};  ///< by increasing length

  /// Interpolates and extrapolates linearly; without points uses alpha and beta, with both directions at once costing
  /// the same as one.
  [[nodiscard]] MessagePoint at(Bytes bytes) const;
  friend bool operator==(const MessageCost&, const MessageCost&) = default;
};

/// Combining received bytes with local data, in cache.
struct CombineCost {
  std::string dtype{};  ///< "f32", "bf16", …
  Seconds gamma{};      ///< per byte
  friend bool operator==(const CombineCost&, const CombineCost&) = default;
};

/// Waiting until all of `ranks` ranks have arrived.
struct RendezvousCost {
  int ranks = 0;
  Seconds first{};  ///< measured from the call
  Seconds next{};   ///< repeated, by ranks that have just synchronized
  friend bool operator==(const RendezvousCost&, const RendezvousCost&) = default;
};

/// Seconds per byte read or written by a rank that passes over this much memory repeatedly.
struct MemoryCost {
  Bytes footprint{};
  Seconds alone{};     ///< while the other cores are idle
  Seconds together{};  ///< while every core does the same
  friend bool operator==(const MemoryCost&, const MemoryCost&) = default;
};

/// Passing bytes to another rank through shared memory. Seconds per byte.
struct PassCost {
  Seconds write{};
  Seconds read{};
  friend bool operator==(const PassCost&, const PassCost&) = default;
};

/// Communication costs between the ranks of one host, measured by `trireme probe`. Used to predict collectives between
/// them and to choose their methods; with `compute`, to predict training steps.
struct HostCosts {
  int cores = 0;  ///< number of cores measured together
  std::vector<MessageCost> messages{};
  std::vector<CombineCost> combining{};
  std::vector<RendezvousCost> waits{};  ///< by increasing ranks
  std::vector<MemoryCost> copy{};       ///< by increasing footprint
  std::vector<MemoryCost> combine{};  ///< of two f32 vectors into a third; by increasing footprint
  Seconds stage{};  ///< per byte written, bypassing the caches, for another rank to read
  Seconds fetch{};  ///< per byte read that another rank has staged
  std::optional<PassCost> cached{};  ///< instead of stage and fetch, written through the caches
  MessageCost peek{};                ///< reading another process's memory through the kernel
  std::optional<ComputeCosts> compute{};  ///< if measured

  /// Whether staging data is faster with cached stores than with stores that bypass the caches. False if that was not
  /// measured.
  [[nodiscard]] bool stages_cached() const;
  /// The cost of staging, with the faster kind of stores.
  [[nodiscard]] PassCost passing() const;
  /// Combining bytes of this type; if not measured, the cost for f32, or else 0.
  [[nodiscard]] Seconds gamma(std::string_view dtype) const;
  /// Messages over this transport, if measured.
  [[nodiscard]] const MessageCost* messages_by(std::string_view transport) const;
  /// Synchronizing this many ranks: measured with at least as many; beyond the largest measurement, extrapolated in
  /// proportion. Requires waits.
  [[nodiscard]] RendezvousCost wait_of(int ranks) const;
  friend bool operator==(const HostCosts&, const HostCosts&) = default;
};

/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const HostCosts& costs);

/// The part of the `.cluster.json` text that describes a host. Reads back as equal costs.
[[nodiscard]] std::string to_text(const HostCosts& costs);
/// Throws Error(Input) that names the line or the field; the result has no problems().
[[nodiscard]] HostCosts parse_host_costs(std::string_view text);

}  // namespace trireme
