// Checks the programs of all ranks together before anything runs: that their communication matches, and how much they
// send. Callable from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trireme/program.h"
#include "trireme/valid.h"

namespace trireme {

/// The groups that a rank is in, by the names that its communication ops use: the members in order.
using RankGroups = std::map<std::string, std::vector<int>, std::less<>>;

/// Ranks of one kind run the same program, except for the ranks that they exchange messages with and for where their
/// shards begin. Thousands of ranks are usually as many kinds as there are pipeline stages.
struct RankKinds {
  std::vector<int> first_rank{};       ///< by kind
  std::vector<std::size_t> kind_of{};  ///< by rank
};

/// Which program each rank runs. Ranks may share one: all ranks of a kind run that of the first.
struct RankPrograms {
  std::span<const Program> programs{};
  /// By program: the rank that it was compiled for. Where it sends to rank p, rank r sends to p + r - compiled_for.
  std::vector<int> compiled_for{};
  std::vector<std::size_t> of_rank{};  ///< by rank: its program

  /// A program for each rank.
  [[nodiscard]] static RankPrograms one_each(std::span<const Program> programs);
};

/// The first eight problems of the programs of ranks 0, 1, …, in words that name ranks, instructions and tensors.
/// Empty: with any timing, every rank completes, and every communication op receives the right data. Checks:
///
/// - each program by itself (program.h);
/// - every send has a receive of the same type, and vice versa; those of one source and tag in order;
/// - the members of a group run the same collectives, on tensors of the same names and types, in the same order,
///   each with its own index. Names tell apart what types cannot: two sums of the same length, swapped on one rank;
/// - no deadlock: no ranks wait for one another in a cycle. A send counts as done only when its receive has begun, as
///   with long messages; short ones may be done earlier.
///
/// `groups` has as many entries as there are programs. Throws Error(Usage) otherwise.
[[nodiscard]] std::vector<std::string> problems(std::span<const Program> programs,
                                                std::span<const RankGroups> groups);

/// Bytes that a rank sends to others in a step.
struct OpTraffic {
  std::string op{};
  std::string group{};  ///< empty for messages to one rank
  double bytes = 0;     ///< by the lower bounds of collectives
  friend bool operator==(const OpTraffic&, const OpTraffic&) = default;
};
/// By op, then by group. Receives are included, with 0 bytes.
[[nodiscard]] std::vector<OpTraffic> traffic_of(const Program& program);

}  // namespace trireme
