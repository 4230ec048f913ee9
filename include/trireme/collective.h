// The catalog of collective algorithms, and static analysis of a Schedule. All functions are pure; any thread may call
// them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/schedule.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

enum class Algorithm {
  Mst,                ///< minimum spanning tree: few rounds, whole vectors
  Ring,               ///< neighbors pass blocks around; all links busy
  Long,               ///< scatter + all-gather, or reduce-scatter + gather
  RecursiveDoubling,  ///< butterfly, distances 1, 2, 4, …
  RecursiveHalving,   ///< reduce-scatter at distances p/2 … 1 (all-reduce: then back out)
  Bruck,              ///< any p in ceil(log2 p) rounds
  Pairwise,           ///< round t: rank i to rank i + t
  Chain,              ///< a line of ranks, the vector in segments
  Flat,               ///< everything through the root, at once
  Naive,              ///< one flat reduce per rank, one after the other
  WholeRing,          ///< the ring with whole vectors instead of blocks
  BinaryTree,         ///< a heap-shaped tree, level by level
  DoubleTree,         ///< two trees, half the vector each, in segments
  TwoLevel,           ///< inside nodes, between nodes, inside nodes
};

[[nodiscard]] std::string_view to_text(Algorithm algorithm);
/// Throws Error(Usage) that names the nearest and lists all.
[[nodiscard]] Algorithm parse_algorithm(std::string_view text);
[[nodiscard]] std::span<const Algorithm> all_algorithms();

/// Properties of an algorithm, the same for all of its operations.
struct AlgorithmProperties {
  /// A floating-point all-reduce leaves the same bits on all ranks. False if each rank sums the vectors itself, in its
  /// own order.
  bool bit_identical = true;
  /// Splits the vector into BuildOptions::segments.
  bool segmented = false;
  /// Has a level for the nodes of BuildOptions::ranks_per_node.
  bool two_level = false;
  /// A block may reach its destination through other ranks, which must know its size.
  bool forwards_blocks = true;
  /// Larger groups are rejected.
  Rank max_ranks = 1 << 20;
};
[[nodiscard]] const AlgorithmProperties& properties(Algorithm algorithm);

/// The algorithms that implement this operation.
[[nodiscard]] std::vector<Algorithm> algorithms_for(Operation operation);

struct BuildOptions {
  Rank ranks = 1;
  Rank root = 0;
  /// The number of segments into which chain and double-tree split the vector (double-tree: each half). Other
  /// algorithms ignore it.
  std::int64_t segments = 1;
  /// Ranks on one node, for two-level; must divide `ranks`. 0: the divisor nearest to the square
  /// root.
  Rank ranks_per_node = 0;
};

/// The schedule of this operation by this algorithm. Throws Error(Usage) if the algorithm does not implement the
/// operation (listing those that do) or an option is out of range.
///
///   Schedule s = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 8});
[[nodiscard]] Schedule build(Operation operation, Algorithm algorithm, const BuildOptions& options);

/// A rank that sends or receives more than one message in a step.
struct PortConflict {
  std::size_t step = 0;
  Rank rank = 0;
  std::int64_t sends = 0;
  std::int64_t receives = 0;
};

/// The first violation of the one-port rule. Not an error: timing serializes such messages. Requires a well-formed
/// schedule.
[[nodiscard]] std::optional<PortConflict> find_port_conflict(const Schedule& schedule);

/// The first eight errors, in words, with the step, the ranks and the block. Empty: the schedule is correct. Runs it on
/// sets of contributions instead of numbers. Accepts it if every rank ends with exactly the contributions that the
/// operation promises, each once, and no step is wrong or redundant. Errors: reading a block that has not arrived (a
/// wait that only a later step could end, or a cycle of such waits, is reported as such), overwriting data being sent,
/// a copy and another message into one block in one step, counting a contribution twice. Redundant: a message that
/// brings nothing new, a copy that discards contributions; rejected too, although the result may be correct. Takes
/// ranks * blocks * ceil(ranks / 64) * 8 bytes; throws Error(Usage) if that exceeds 4 GiB.
[[nodiscard]] std::vector<std::string> problems(const Schedule& schedule);

/// The contributions that each rank holds in each block, as sets, for drawings and reports. Bit r: rank r's
/// contribution is included.
class Holdings {
 public:
  /// The state before the first step. Throws like problems().
  explicit Holdings(const Schedule& schedule);
  /// Applies one step of the schedule without checking it.
  void apply(const Step& step);
  [[nodiscard]] Rank contributors(Rank rank, Block block) const;
  [[nodiscard]] bool contains(Rank rank, Block block, Rank contributor) const;

 private:
  [[nodiscard]] std::span<std::uint64_t> set(Rank rank, Block block);
  [[nodiscard]] std::span<const std::uint64_t> set(Rank rank, Block block) const;
  Rank ranks_;
  Block blocks_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
  friend class Verifier;
};

/// Whether `rank` must end up with `block`, and with how many contributions.
struct Promise {
  bool wanted = false;
  Rank contributors = 0;
};
[[nodiscard]] Promise promise(const Schedule& schedule, Rank rank, Block block);

/// Runs the schedule on numbers: buffers[rank][block] is that rank's value of that block, combined by addition; blocks
/// that a rank does not hold yet are ignored on input. Calls `after_step(t)` with the buffers as of the end of step t.
/// The reference that every transport is compared against. Requires a well-formed schedule.
using Values = std::vector<std::vector<std::vector<double>>>;
void replay(const Schedule& schedule, Values& buffers,
            const std::function<void(std::size_t)>& after_step = {});

/// The most blocks that any rank must hold at once between steps, beyond the operation's own input and output, if the
/// input is not modified. Excludes buffers for messages being combined: a transport may or may not need them.
[[nodiscard]] Block scratch_blocks(const Schedule& schedule);

}  // namespace trireme
