// The protocol of direct collectives (direct.h) as functions on plain data: offers, path selection, waits. Nothing here
// touches memory; DirectOp executes the protocol, and tests/comm/direct_protocol_test.cpp checks it in every reachable
// state.
//
// A call, on one rank (n chunks on the chunked path, one otherwise):
//
//   Begin      announce: make the offers, then store the stamp
//   Gathering  once the stamps that this rank awaits have arrived: choose the path from the offers
//   Working    read, share: work, and leave, unless a buffer is lent
//   Leaving    wait for the peers that use this rank's own buffers
//   Pipeline   chunked: stage, work on and take each chunk
//   Finished
//
// Everything is inline: a call of a few bytes takes 0.3 us.
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/direct/area.h"
#include "comm/direct/direct_limits.h"
#include "comm/wire/geometry.h"
#include "trireme/comm_call.h"
#include "trireme/schedule.h"

namespace trireme::comm {

/// How the data of a call moves (see direct.h). All ranks of a call take the same path.
enum class Path : std::uint8_t { Read, Share, Chunked };

/// A rank's offers for its two buffers.
struct Offers {
  Offer input = Offer::Nothing;
  Offer output = Offer::Nothing;

  /// Peers read the caller's own buffer.
  [[nodiscard]] bool lends_input() const {
    return input == Offer::Buffer || input == Offer::Address;
  }
  /// Peers may use one of the caller's own buffers.
  [[nodiscard]] bool lends() const { return lends_input() || output != Offer::Nothing; }
  friend bool operator==(const Offers&, const Offers&) = default;
};

/// Who can see a rank's buffers.
struct Visibility {
  bool input = false;      ///< peers can read the input
  bool output = false;     ///< peers can write to the output
  bool can_fetch = false;  ///< every member can copy from and to any memory of every other
};

/// A call as one rank sees it. The geometry must outlive it.
struct DirectCall {
  Operation operation = Operation::Barrier;
  Rank ranks = 1;
  Rank root = 0;
  Rank me = 0;
  const Geometry* geometry = nullptr;
  std::int64_t input_bytes = 0;
  /// The output of an all-to-all is its input: peers would read data that this rank overwrites.
  bool overwrites_input = false;
  /// Short, and with a root: ranks leave without waiting for those whose data they do not need.
  bool is_early = false;

  // Properties of the operation. The same on all ranks.

  [[nodiscard]] bool combines_vector() const {
    return operation == Operation::Allreduce || operation == Operation::Reduce;
  }
  /// Inputs are combined, not only copied.
  [[nodiscard]] bool combines_inputs() const {
    return combines_vector() || operation == Operation::ReduceScatter;
  }
  /// Only the root has data for others.
  [[nodiscard]] bool gives_from_root() const {
    return operation == Operation::Broadcast || operation == Operation::Scatter;
  }
  /// An input has a block for each rank, rather than the same data for all.
  [[nodiscard]] bool has_block_for_each() const {
    return operation == Operation::Scatter || operation == Operation::ReduceScatter ||
           operation == Operation::Alltoall;
  }
  /// A rank has data for others.
  [[nodiscard]] bool gives(Rank rank) const {
    switch (operation) {
      case Operation::Broadcast:
      case Operation::Scatter:
        return rank == root;
      case Operation::Gather:
        return rank != root;
      case Operation::Barrier:
        return false;
      default:
        return true;
    }
  }
  /// A rank gets the vector that is combined, gathered or broadcast.
  [[nodiscard]] bool gets_result(Rank rank) const {
    switch (operation) {
      case Operation::Allreduce:
      case Operation::Allgather:
        return true;
      case Operation::Broadcast:
        return rank != root;
      default:
        return rank == root;
    }
  }
  /// Whether one rank reads what another gives. The root alone does a reduce of whole inputs.
  [[nodiscard]] bool reads(Path path, Rank reader, Rank source) const {
    switch (operation) {
      case Operation::Broadcast:
      case Operation::Scatter:
        return source == root;
      case Operation::Gather:
        return reader == root;
      case Operation::Reduce:
        return path != Path::Read || reader == root;
      case Operation::Barrier:
        return false;
      default:
        return true;
    }
  }

  // Sizes.

  /// The longest block that goes from one rank to another, in bytes.
  [[nodiscard]] std::int64_t longest_block() const {
    return geometry->form == Form::Vector
               ? geometry->bytes()
               : geometry->longest_block(ranks) * geometry->element_bytes;
  }
  /// Ranks write parts of the result into one another's outputs, if they can see them.
  [[nodiscard]] bool may_share() const {
    return combines_vector() ? geometry->bytes() > kCombineAlone
                             : is_shared_write(operation, ranks, geometry->bytes());
  }
  /// Peers may put data into a rank's output that they cannot see.
  [[nodiscard]] bool is_put_to(Rank rank) const {
    if (operation == Operation::Gather) {
      return rank == root;
    }
    return rank != root && is_halved(operation, ranks, longest_block());
  }

  // This rank's offers. Looking up a buffer takes time, so a small call avoids it.

  /// Whether peers may use a buffer of this rank; otherwise its input is short, and copied.
  [[nodiscard]] bool may_lend() const {
    return std::max(geometry->bytes(), input_bytes) > kCopyAnyway;
  }
  /// Whether it matters if peers can see the input.
  [[nodiscard]] bool may_lend_input() const {
    return input_bytes > kCopyAnyway && !overwrites_input &&
           !(combines_vector() && input_bytes <= kCombineAlone) && gives(me);
  }
  /// Whether it matters if peers can see the output.
  [[nodiscard]] bool may_lend_output(const Visibility& visibility) const {
    return (may_share() && gets_result(me)) || is_reached_by_system(visibility);
  }
  [[nodiscard]] Offers offers(const Visibility& visibility) const {
    return {.input = input_offer(visibility), .output = output_offer(visibility)};
  }

  // Which ranks this rank waits for.

  /// It waits for the rank's stamp, and checks what that rank called.
  [[nodiscard]] bool awaits(Rank rank) const {
    return !is_early || (gives_from_root() ? rank : me) == root;
  }
  /// It must not return before the peer is done, because the peer uses this rank's buffers.
  [[nodiscard]] bool leaves_after(Rank peer, Path path, Offers mine) const {
    if (path == Path::Share) {
      return operation != Operation::Gather || me == root;
    }
    return (mine.lends_input() && reads(path, peer, me)) ||
           (mine.output == Offer::Address && reads(path, me, peer));
  }

 private:
  /// Each part of an input has one reader: a copy helps only that reader and, up to some length, costs more than a copy
  /// by the kernel.
  [[nodiscard]] bool is_fetched(const Visibility& visibility) const {
    return visibility.can_fetch && comm::is_fetched(operation, ranks, longest_block());
  }
  /// Peers put data into this rank's output, if they cannot see it.
  [[nodiscard]] bool is_reached_by_system(const Visibility& visibility) const {
    return visibility.can_fetch && is_put_to(me) && is_fetched(visibility);
  }

  [[nodiscard]] Offer input_offer(const Visibility& visibility) const {
    if (!gives(me)) {
      return Offer::Nothing;
    }
    if (visibility.input && may_lend_input()) {
      return Offer::Buffer;
    }
    if (input_bytes >= kFetchFrom && !overwrites_input && is_fetched(visibility)) {
      return Offer::Address;
    }
    if (!is_staged_whole(operation, ranks, input_bytes)) {
      return Offer::Nothing;
    }
    return operation == Operation::Reduce && me == root ? Offer::Withheld : Offer::Copy;
  }

  [[nodiscard]] Offer output_offer(const Visibility& visibility) const {
    if (visibility.output) {
      return may_share() && gets_result(me) ? Offer::Buffer : Offer::Nothing;
    }
    return is_reached_by_system(visibility) ? Offer::Address : Offer::Nothing;
  }
};

/// The geometry must outlive the result.
[[nodiscard]] inline DirectCall make_direct_call(const Call& call, const Geometry& geometry,
                                                 Rank me, Rank ranks) {
  return {.operation = call.operation,
          .ranks = ranks,
          .root = call.root,
          .me = me,
          .geometry = &geometry,
          .input_bytes = static_cast<std::int64_t>(call.input.size()),
          .overwrites_input =
              call.operation == Operation::Alltoall && call.input.data() == call.output.data(),
          .is_early = geometry.bytes() <= kCopyAnyway && has_root(call.operation)};
}

/// The choice of a path, from the offers of the awaited ranks. Every rank makes the same choice, because all see the
/// same offers or, in an early call, because every input is a copy.
class PathChoice {
 public:
  explicit PathChoice(const DirectCall& call) : call_(call) {}

  void add(Rank rank, Offers theirs) {
    const Offer input = theirs.input;
    all_offered_ = all_offered_ && (input != Offer::Nothing || !call_.gives(rank));
    all_copied_ = all_copied_ && (input == Offer::Copy || input == Offer::Withheld);
    all_readable_ = all_readable_ && input != Offer::Withheld;
    someone_lends_ = someone_lends_ || theirs.lends_input();
    uses_lent_memory_ = uses_lent_memory_ || theirs.lends();
    all_outputs_ = all_outputs_ && (theirs.output == Offer::Buffer || !call_.gets_result(rank));
    root_lends_ = root_lends_ || (rank == call_.root && input == Offer::Buffer);
  }

  [[nodiscard]] Path path() const {
    if (call_.combines_vector()) {
      // Each rank combines copies for itself, as it does a reduce whose root keeps its input.
      if (all_offered_ && (all_copied_ || !all_readable_)) {
        return Path::Read;
      }
      return all_offered_ && all_outputs_ ? Path::Share : Path::Chunked;
    }
    if (call_.may_share() && all_outputs_ && is_source_visible()) {
      return Path::Share;
    }
    return all_offered_ ? Path::Read : Path::Chunked;
  }
  /// Whether ranks may read or write a buffer that belongs to another rank's caller, who may free it if the call fails.
  [[nodiscard]] bool uses_lent_memory() const { return uses_lent_memory_; }
  /// Whether a rank lends its own buffer on this path, and waits until the others are done.
  [[nodiscard]] bool someone_waits(Path path) const {
    return someone_lends_ || path == Path::Share;
  }

 private:
  /// Each rank sees the data that it must copy into others' outputs.
  [[nodiscard]] bool is_source_visible() const {
    return call_.operation != Operation::Broadcast || root_lends_;
  }

  const DirectCall& call_;
  bool all_offered_ = true;
  bool all_copied_ = true;    ///< no rank lends its own buffer
  bool all_readable_ = true;  ///< by all: no rank withholds its input
  bool someone_lends_ = false;
  bool uses_lent_memory_ = false;
  bool all_outputs_ = true;
  bool root_lends_ = false;
};

}  // namespace trireme::comm
