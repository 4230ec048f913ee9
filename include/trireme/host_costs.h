// HostCosts: what the ranks of one host cost one another, in numbers that were measured there.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// A message of this length between two ranks: alone, and while one of the same length goes the other way.
struct MessagePoint {
  Bytes bytes{};
  Seconds one_way{};
  Seconds exchange{};
  friend bool operator==(const MessagePoint&, const MessagePoint&) = default;
};

/// Messages between two ranks of one host: n bytes take alpha + n * beta, roughly, and by the points, where
/// they were measured, more exactly.
struct MessageCost {
  std::string transport{};  ///< "in-process", "shm", "tcp", "ucx"
  Seconds alpha{};
  Seconds beta{};                      ///< per byte
  std::vector<MessagePoint> points{};  ///< by rising length

  /// Straight between the points and beyond them; without points by alpha and beta, both ways at once as one.
  [[nodiscard]] MessagePoint at(Bytes bytes) const;
  friend bool operator==(const MessageCost&, const MessageCost&) = default;
};

/// Combining received bytes with what a rank holds, in the cache.
struct CombineCost {
  std::string dtype{};  ///< "f32", "bf16", …
  Seconds gamma{};      ///< per byte
  friend bool operator==(const CombineCost&, const CombineCost&) = default;
};

/// Waiting until all of `ranks` ranks have come.
struct RendezvousCost {
  int ranks = 0;
  Seconds first{};  ///< from the call on
  Seconds next{};   ///< again, by ranks that have just met
  friend bool operator==(const RendezvousCost&, const RendezvousCost&) = default;
};

/// Seconds per byte that is read or written, by a rank that goes over this much memory again and
/// again.
struct MemoryCost {
  Bytes footprint{};
  Seconds alone{};     ///< while the other cores rest
  Seconds together{};  ///< while every core does the same
  friend bool operator==(const MemoryCost&, const MemoryCost&) = default;
};

/// Passing bytes on to another rank, through memory that both see. Seconds per byte.
struct PassCost {
  Seconds write{};
  Seconds read{};
  friend bool operator==(const PassCost&, const PassCost&) = default;
};

/// What the ranks of one host cost one another, measured by `trireme probe`. With it, collectives
/// between them are predicted and chosen.
struct HostCosts {
  int cores = 0;  ///< that were measured together
  std::vector<MessageCost> messages{};
  std::vector<CombineCost> combining{};
  std::vector<RendezvousCost> waits{};  ///< by rising ranks
  std::vector<MemoryCost> copy{};       ///< by rising footprint
  std::vector<MemoryCost> combine{};    ///< of two f32 vectors into a third; by rising footprint
  Seconds stage{};  ///< per byte written, past the caches, for another rank to read
  Seconds fetch{};  ///< per byte read that another rank has staged
  std::optional<PassCost> cached{};  ///< instead of stage and fetch, written through the caches
  MessageCost peek{};                ///< reading another process' memory through the system

  /// Whether what is staged for others is better written through the caches than past them. No, where
  /// that was not measured.
  [[nodiscard]] bool stages_cached() const;
  /// What staging takes, the better way.
  [[nodiscard]] PassCost passing() const;
  /// Combining bytes of this type; where it was not measured as for f32, or nothing at all.
  [[nodiscard]] Seconds gamma(std::string_view dtype) const;
  /// Messages by this transport, if they were measured.
  [[nodiscard]] const MessageCost* messages_by(std::string_view transport) const;
  /// Waiting of so many ranks: as measured with at least as many; beyond all that were, in proportion.
  /// Requires waits.
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
