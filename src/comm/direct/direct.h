// Direct: collectives between ranks that can access one another's memory. No messages: each rank announces where its
// buffers are, waits until all have done so, and reads (or writes) its peers' memory itself.
//
// Each rank offers its input: the caller's buffer if peers can see it (World::allocate, or threads), else a copy in
// staging memory if it is small (the smallest on the cache line of the stamp itself), else, if each part of a
// medium-sized input has one reader, its address to fetch from. Between two ranks of which only one has data, the
// sender also writes part of it into the other's output; in a gather all ranks write theirs. Then, depending on
// the offers, all take one of three paths (n is the vector, p the ranks):
//
//   read      Every rank reads what it needs from all offers; for a small reduction it combines all p
//             inputs itself. One wait; a second one for ranks that offered their own buffer.
//   share     Long buffers that all can see: each rank makes 1/p of the result (combines it, or copies it:
//             of a gather, its own block) and writes it into all outputs. Two waits. Memory sees each
//             input read once and each output written once, 2pn bytes for an all-reduce: the minimum
//             for these buffers.
//   chunked   Buffers that peers cannot see, longer than a copy. In chunks that pass through staging
//             memory small enough to stay in the cache: each rank stages a chunk, works on the staged
//             chunks of all ranks, and reads the results of others. Each byte crosses memory as often as
//             above; the extra copies hit the cache. Two chunks are in flight at a time.
//
// Every path begins with all ranks seeing all others' records, so a disagreement is found before any data is touched.
// Contributions are combined in rank order on every rank, so the results are bitwise equal.
//
// The exception is a short operation with a root, where that would cost most: a rank waits only for ranks whose data it
// reads, and checks their records; a rank that only sends (the root of a broadcast, the others in a gather) returns
// immediately, if all have finished the call before the last. The next call detects any missed disagreement, because
// the fingerprint that ranks compare also covers all earlier calls.
//
// The protocol itself is pure: direct_protocol.h (offers, paths, waits), direct_steps.h (the order of steps),
// direct_windows.h and direct_moves.h (which bytes go where). DirectOp carries them out, in real memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/indexed_vector.h"
#include "comm/direct/area.h"
#include "comm/direct/direct_moves.h"
#include "comm/direct/direct_protocol.h"
#include "comm/direct/direct_state.h"
#include "comm/direct/direct_steps.h"
#include "comm/direct/direct_windows.h"
#include "comm/kernels/kernels.h"
#include "comm/op/context.h"
#include "comm/op/op.h"
#include "comm/transport/memory.h"
#include "comm/transport/rank_page.h"
#include "comm/wire/geometry.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

/// The group and host state that a direct operation needs. Everything outlives the operation.
struct DirectContext {
  const OpContext& op;
  DirectState& state;
  HostMemory& memory;
  const RankPage& own_page;
};

/// A rank's view of its peers in one call: their slots and clocks.
class DirectPeers {
 public:
  DirectPeers(DirectState& state, std::uint64_t sequence) : state_(state), sequence_(sequence) {}

  [[nodiscard]] bool may_begin() const { return state_.may_begin(sequence_); }
  [[nodiscard]] bool has_stamped(Rank rank) const {
    return slot(rank).stamp.load(std::memory_order_acquire) == sequence_;
  }
  [[nodiscard]] bool has_reached(Rank rank, Stage stage, std::int64_t chunks) const {
    return chunks <= 0 ||
           state_.area(rank).clocks[stage].load(std::memory_order_acquire) >= clock_at(chunks);
  }
  [[nodiscard]] Offers offers(Rank rank) const {
    const Slot& theirs = slot(rank);
    return {.input = theirs.input_offer, .output = theirs.output_offer};
  }
  [[nodiscard]] Extent sends(Rank from, Rank to) const {
    return state_.area(from).sends(sequence_)[to];
  }
  [[nodiscard]] Slot& slot(Rank rank) const { return state_.area(rank).slots[sequence_ % 2]; }
  [[nodiscard]] std::uint64_t clock_at(std::int64_t chunks) const {
    return (sequence_ << kChunkBits) + static_cast<std::uint64_t>(chunks);
  }

 private:
  DirectState& state_;
  std::uint64_t sequence_;
};

class DirectOp : public Op {
 public:
  /// All arguments and the call's buffers must live until it is done.
  DirectOp(const DirectContext& context, const Call& call, const Geometry& geometry,
           const Record& record);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;

 private:
  [[nodiscard]] Progress run_steps();
  /// Called when a step is done: notifies the peers that wait for it.
  void record(DirectStep step) {
    if (const Tick tick = complete(step, progress_); tick.chunks > 0) {
      publish(tick);
    }
  }
  [[nodiscard]] Progress await_begin();
  void withdraw() noexcept;
  [[nodiscard]] bool is_missing(Rank rank) const;
  [[nodiscard]] std::uint64_t progress_of(Rank rank) const;
  [[nodiscard]] std::string text() const;

  // Offers and the path.
  void announce();
  [[nodiscard]] Visibility publish_buffers(Slot& mine) const;
  void propose_stores(Slot& mine);
  [[nodiscard]] Stores stores_for_sharing();
  void choose_path();
  void throw_failure();
  void prepare_work();
  void fail_mismatch();
  [[nodiscard]] IndexedVector<Rank, Witness> witnesses_of_this() const;
  [[nodiscard]] IndexedVector<Rank, Witness> witnesses_of_earlier(std::uint64_t sequence) const;
  void check_tables() const;
  /// Throws CommError(Stopped) if the other ranks declared this one dead.
  void require_not_declared_dead() const {
    if (context_.own_page.verdict.load(std::memory_order_acquire) != 0) {
      context_.op.failures.throw_declared_dead();
    }
  }

  // The work on one window.
  void copy_input();
  void stage(const Window& window);
  void work(const Window& window);
  void take(const Window& window);
  void combine(const Window& window);
  void combine_chunk(const Combine& how, std::int64_t count);
  void copy(const Move& move);
  void fetch(const Move& move);
  void put(const Move& move);
  void copy_by_system(Rank peer, const std::function<void(Rank world_rank)>& how);
  void publish(Tick tick);
  void update_stores();
  void end_stores();

  // Spots in real memory.
  [[nodiscard]] const std::byte* source_at(const Spot& spot) const;
  [[nodiscard]] std::byte* target_at(const Spot& spot) const;
  [[nodiscard]] std::byte* staging_at(const Spot& spot) const;
  [[nodiscard]] std::byte* view(Rank rank, std::uint64_t place) const;

  [[nodiscard]] Slot& slot(Rank rank) const { return peers_.slot(rank); }
  [[nodiscard]] DirectSteps<DirectPeers> steps() const { return {direct_, peers_}; }
  [[nodiscard]] DirectMoves<DirectPeers> moves() const {
    return {direct_, progress_.path, windows_, peers_};
  }

  const DirectContext& context_;
  DirectState& state_;  ///< of the context: small calls use it most
  const Call& call_;
  const Record& record_;
  const DirectCall direct_;
  const DirectPeers peers_;
  DirectProgress progress_;
  int yields_ = 0;  ///< of await_begin()
  Windows windows_;
  Stores stores_ = Stores::Cached;
};

}  // namespace trireme::comm
