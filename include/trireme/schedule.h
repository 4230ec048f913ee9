// Schedule: one collective operation, step by step, as data: who sends which block to whom, copied or combined.
//
// The same value is executed on a transport, timed (collective_cost.h), verified and replayed
// (collective.h), drawn, and printed as text. Plain data: build it, then treat it as immutable; any
// number of threads may read it.
//
// Semantics. All transfers of a step happen at the same time: each reads what its sender held before the step. A rank
// enters step t+1 once its own transfers of step t are done, so only data dependencies order the ranks. One Transfer is
// one message, regardless of the number of its blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

using Rank = std::int32_t;
using Block = std::int64_t;

enum class Operation {
  Broadcast,
  Reduce,
  Scatter,
  Gather,
  Allgather,
  ReduceScatter,
  Allreduce,
  Alltoall,
  Barrier,
};

/// What the receiver does with a block: replace its own, or combine (add, max, …) with its own.
enum class Action { Copy, Combine };
/// "copy", "add".
[[nodiscard]] std::string_view to_text(Action action);

/// What the blocks of a schedule represent. n is the size of the vector that is complete on one side of the operation
/// (for all-to-all: one rank's send buffer).
enum class Layout {
  /// The blocks divide the vector; their sizes differ by at most one element.
  Split,
  /// One block per rank, each as long as the vector: rank r's result is block r (un-chunked all-reduce).
  Replicas,
  /// Block s * ranks + d is what rank s has for rank d (all-to-all).
  Pairs,
};
/// "split", "replicas", "pairs".
[[nodiscard]] std::string_view to_text(Layout layout);

/// Blocks first, first + stride, …: `count` of them.
struct BlockRun {
  Block first = 0;
  Block count = 1;
  Block stride = 1;
  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

/// One message.
struct Transfer {
  Rank from = 0;
  Rank to = 0;
  Action action = Action::Copy;
  std::vector<BlockRun> blocks;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

/// Blocks of a Rotation, as a function of the sender's place i among `count` places ([x] is x mod count):
///   base + row_stride * [i + row_turn] + column_stride * [i + column_turn], and the run that
///   starts there.
struct TurningRun {
  Block base = 0;
  Block row_stride = 0;
  Rank row_turn = 0;
  Block column_stride = 1;
  Rank column_turn = 0;
  Block run_count = 1;
  Block run_stride = 1;
  friend bool operator==(const TurningRun&, const TurningRun&) = default;
};

/// `count` messages in one pattern: the rank at place i sends to the rank at place [i + shift], for every i in [0,
/// count). Place i is rank first + stride * i. This keeps a ring of p ranks at O(p) memory instead of O(p²).
///
/// Example, step 2 of the ring all-gather over 9 ranks (rank i sends block i-2 to rank i+1):
///   Rotation{.first = 0, .stride = 1, .count = 9, .shift = 1, .blocks = {{.column_turn = 7}}}
struct Rotation {
  Rank first = 0;
  Rank stride = 1;
  Rank count = 0;
  Rank shift = 1;
  Action action = Action::Copy;
  std::vector<TurningRun> blocks;
  std::vector<Rank> silent = {};  ///< places that send nothing, ascending
  friend bool operator==(const Rotation&, const Rotation&) = default;
};

/// Concurrent transfers.
struct Step {
  std::vector<Transfer> transfers;
  std::vector<Rotation> rotations;
  friend bool operator==(const Step&, const Step&) = default;
};

struct Schedule {
  Operation operation = Operation::Broadcast;
  std::string algorithm;  ///< for display; any word
  Rank ranks = 1;
  Rank root = 0;  ///< 0 if the operation has none
  Layout layout = Layout::Split;
  Block blocks = 1;
  std::vector<Step> steps;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// A message as a visitor sees it. `blocks` is valid only during the visit.
struct Message {
  Rank from = 0;
  Rank to = 0;
  Action action = Action::Copy;
  std::span<const BlockRun> blocks;
};

/// The first block of the run that the rank at place i of `count` sends.
[[nodiscard]] inline Block turned_block(const TurningRun& run, Rank place, Rank count) {
  const auto turn = [&](Rank by) {
    return static_cast<Block>((static_cast<Block>(place) + by) % count);
  };
  return run.base + run.row_stride * turn(run.row_turn) + run.column_stride * turn(run.column_turn);
}

/// Calls visit(Message) for what the rank at this place of a rotation sends, unless it is silent. `runs` is scratch
/// space, so that a walk over many places allocates once.
template <class Visitor>
void visit_place(const Rotation& rotation, Rank place, std::vector<BlockRun>& runs,
                 Visitor&& visit) {
  if (std::ranges::binary_search(rotation.silent, place)) {
    return;
  }
  runs.resize(rotation.blocks.size());
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const TurningRun& turning = rotation.blocks[k];
    runs[k] = {turned_block(turning, place, rotation.count), turning.run_count, turning.run_stride};
  }
  const auto target =
      static_cast<Rank>((static_cast<Block>(place) + rotation.shift) % rotation.count);
  visit(Message{rotation.first + rotation.stride * place, rotation.first + rotation.stride * target,
                rotation.action, runs});
}

/// Calls visit(Message) for every message of the step, plain transfers first. Requires a well-formed
/// step (turns and shift in [0, count)), which parse_schedule and form_problems establish.
template <class Visitor>
void for_each_message(const Step& step, Visitor&& visit) {
  for (const Transfer& transfer : step.transfers) {
    visit(Message{transfer.from, transfer.to, transfer.action, transfer.blocks});
  }
  std::vector<BlockRun> runs;
  for (const Rotation& rotation : step.rotations) {
    for (Rank place = 0; place < rotation.count; ++place) {
      visit_place(rotation, place, runs, visit);
    }
  }
}

/// Calls visit(Message) for every message of the step that `rank` sends or receives: what one rank's executor needs. A
/// rotation costs two lookups, not one per place. Requires the same.
template <class Visitor>
void for_each_message_of(const Step& step, Rank rank, Visitor&& visit) {
  for (const Transfer& transfer : step.transfers) {
    if (transfer.from == rank || transfer.to == rank) {
      visit(Message{transfer.from, transfer.to, transfer.action, transfer.blocks});
    }
  }
  std::vector<BlockRun> runs;
  for (const Rotation& rotation : step.rotations) {
    const Rank offset = rank - rotation.first;
    if (offset < 0 || offset % rotation.stride != 0 || offset / rotation.stride >= rotation.count) {
      continue;
    }
    const Rank place = offset / rotation.stride;
    const Rank source = (place - rotation.shift + rotation.count) % rotation.count;
    visit_place(rotation, place, runs, visit);   // what it sends
    visit_place(rotation, source, runs, visit);  // what it receives
  }
}

/// Calls visit(Block) for every block of the message, in order.
template <class Visitor>
void for_each_block(std::span<const BlockRun> runs, Visitor&& visit) {
  for (const BlockRun& run : runs) {
    for (Block k = 0; k < run.count; ++k) {
      visit(run.first + k * run.stride);
    }
  }
}

/// How much data an operation moves: `elements` of `element_bytes` each; block boundaries fall between elements.
struct Payload {
  std::int64_t elements = 0;
  std::int64_t element_bytes = 1;
};

/// The range of a block in the vector, in elements. Blocks after the remainder are one element shorter; with fewer
/// elements than blocks, the last blocks are empty.
struct Extent {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};
[[nodiscard]] Extent block_extent(const Schedule& schedule, std::int64_t elements, Block block);

/// The total number of elements in the runs.
[[nodiscard]] std::int64_t element_count(const Schedule& schedule, std::int64_t elements,
                                         std::span<const BlockRun> runs);

/// Bytes of a message.
[[nodiscard]] std::int64_t message_bytes(const Schedule& schedule, const Payload& payload,
                                         const Message& message);

/// "allreduce", "reduce-scatter", …: the names of the command line and of the text form.
[[nodiscard]] std::string_view to_text(Operation operation);
/// Throws Error(Usage) that lists the valid names.
[[nodiscard]] Operation parse_operation(std::string_view text);
/// Every operation, in the order of the enum.
[[nodiscard]] std::span<const Operation> all_operations();
/// True for broadcast, reduce, scatter, gather.
[[nodiscard]] bool has_root(Operation operation);
/// True where every rank's data is combined: reduce, reduce-scatter, all-reduce.
[[nodiscard]] bool combines(Operation operation);

/// Why the value is not a schedule at all: a rank or block out of range, a message to oneself, … Empty if it is well
/// formed. For the correctness of its result, see problems().
[[nodiscard]] std::vector<std::string> form_problems(const Schedule& schedule);

// Composing schedules.

/// The steps in reverse order, each message reversed, copy and combine swapped. A reversed broadcast is a reduce, a
/// reversed scatter a gather, a reversed all-gather a reduce-scatter, and vice versa; no other operation reverses.
/// Correct for schedules in which no rank receives a block that it already has (an all-gather through a root does that:
/// each rank's own block comes back to it, and the reversed path would count it twice).
[[nodiscard]] Schedule reversed(const Schedule& schedule);

/// All steps of `first`, then all steps of `second`. Both must have the same ranks, layout and
/// blocks. Keeps the labels (operation, algorithm, root) of `first`.
[[nodiscard]] Schedule then(Schedule first, const Schedule& second);

/// Step t of both as one step, for every t. Same requirements and labels as then().
[[nodiscard]] Schedule in_parallel(Schedule one, const Schedule& other);

/// How to embed a small schedule in a larger one. Rank r becomes first_rank + rank_stride * r. Block b becomes the run
///   { base + row_stride * (b / columns) + column_stride * (b mod columns), run_count, run_stride
///   }.
struct Embedding {
  Rank first_rank = 0;
  Rank rank_stride = 1;
  Block base = 0;
  Block columns = 1;
  Block row_stride = 1;
  Block column_stride = 0;
  Block run_count = 1;
  Block run_stride = 1;
};
/// The steps of `inner` with ranks and blocks renamed, as a schedule with the ranks, layout and
/// blocks of `frame` (whose own steps are ignored).
[[nodiscard]] Schedule embedded(const Schedule& inner, const Embedding& how, const Schedule& frame);

/// The same steps over finer blocks: each block becomes `pieces` adjacent ones.
[[nodiscard]] Schedule refined(const Schedule& schedule, Block pieces);

// The text form (.schedule). parse_schedule(to_text(s)) == s.

[[nodiscard]] std::string to_text(const Schedule& schedule);
/// Throws Error(Input) naming the line. The result is well formed.
[[nodiscard]] Schedule parse_schedule(std::string_view text);

}  // namespace trireme
