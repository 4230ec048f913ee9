// Direct: collectives of ranks that see one another's memory. No messages: each rank says where its
// buffers are, waits until all have said so, and reads (or writes) its peers' memory itself.
//
// Each rank offers its input: the caller's buffer where peers can see it (World::allocate, or threads),
// else a copy in staging memory if it is small (the smallest on the very cache line of the stamp), else,
// where one reader each takes a part of middling size, its address to fetch from. Of two ranks, one of which gives, the
// giver puts a part of it into the other's output meanwhile; in a gather all put theirs.
// Then, by what was offered (n is the vector, p the ranks):
//
//   read      Every rank takes what it needs from all offers; for a small combination it combines all p
//             inputs itself. One wait; a second one for those who offered their own buffer.
//   share     Long buffers that all can see: each rank makes 1/p of the result (combines it, or copies it:
//             of a gather, its own block) and writes it into all outputs. Two waits. Memory sees each
//             input read once and each output written once, 2pn bytes for an all-reduce: with these
//             buffers none can do with less.
//   chunked   Buffers that peers cannot see, longer than a copy. In chunks that pass through staging
//             memory small enough to stay in the cache: each rank stages a chunk, works on the staged
//             chunks of all, takes results that others made. Each byte crosses memory as often as
//             above; the extra copies hit the cache. Two chunks are under way at a time.
//
// Every way begins with all ranks seeing all others' records, so a disagreement is found before any
// data is touched. Combining goes in the order of ranks, the same on all of them: equal bits.
//
// The exception are short operations with a root, where that would cost most: a rank waits for those alone whose
// data it takes, and checks their records; one that only gives (the root of a broadcast, the others in a gather)
// returns at once, if all have finished the call before the last. What it did not see then it sees in the next
// call, as what ranks compare stands for all calls before it, too.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/area.h"
#include "comm/geometry.h"
#include "comm/group_core.h"
#include "comm/kernels.h"
#include "comm/op.h"
#include "trireme/comm_call.h"

namespace trireme::comm {

class DirectOp : public Op {
 public:
  /// The group, the call and its buffers must live until it is done.
  DirectOp(GroupCore& group, const Call& call, const Geometry& geometry, const Record& record);

  [[nodiscard]] Progress advance() override;
  void check(Seconds stuck) override;
  void expire(Seconds stuck) override;

 private:
  enum class Way : std::uint8_t { Read, Share, Chunked };
  enum class State : std::uint8_t { Begin, Gathering, Pipeline, Leaving };

  /// A range of the operation's unit: elements of the vector, or of each block.
  struct Window {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t number = 0;  ///< which chunk
    [[nodiscard]] std::int64_t length() const { return end - begin; }
  };

  [[nodiscard]] Progress go_on();
  void withdraw() noexcept;
  [[nodiscard]] bool is_missing(Rank rank) const;
  [[nodiscard]] std::uint64_t progress_of(Rank rank) const;
  [[nodiscard]] std::string text() const;

  // Beginning.
  void announce();
  [[nodiscard]] Stores way_to_share();
  void offer_input(Slot& slot);
  void offer_copy(Slot& slot);
  [[nodiscard]] bool should_be_fetched() const;
  [[nodiscard]] std::int64_t longest_block() const;
  void offer_output(Slot& slot);
  void offer_address(Slot& slot);
  [[nodiscard]] bool awaits(Rank rank) const;
  [[nodiscard]] bool all_here();
  void survey();
  [[noreturn]] void fail_mismatch();
  [[nodiscard]] std::vector<Witness> witnesses_of_this() const;
  [[nodiscard]] std::vector<Witness> witnesses_of_earlier(std::uint64_t sequence) const;
  void check_tables() const;
  void cut_windows();
  void place_chunks();
  [[nodiscard]] Progress begin_work();
  [[nodiscard]] Progress advance_pipeline();
  void lead_passing();
  [[nodiscard]] Progress leave();
  [[nodiscard]] bool may_leave() const;

  // Who depends on whom.
  [[nodiscard]] bool offers(Rank rank) const;
  [[nodiscard]] bool reads(Rank reader, Rank source) const;
  [[nodiscard]] bool gets_result(Rank rank) const;
  [[nodiscard]] bool may_be_shared() const;
  [[nodiscard]] bool is_source_seen() const;
  [[nodiscard]] bool is_put_to(Rank rank) const;
  [[nodiscard]] bool is_combined_vector() const;
  [[nodiscard]] bool has_block_for_each() const;
  [[nodiscard]] bool lends_input() const;

  // The work on one window.
  void stage(const Window& window);
  void work(const Window& window);
  void take(const Window& window);
  void take_inputs(const Window& window, std::int64_t within = 0);
  void combine_whole();
  void combine_share(const Window& window);
  void copy_share(const Window& window);
  void combine_staged_share(const Window& window);
  void combine_blocks(const Window& window);
  void pull(const Window& window);
  void pull_block(const Window& window, Rank from, Extent into);
  void push();
  [[nodiscard]] std::int64_t fetched_of(Rank from, Rank to, std::int64_t length) const;
  void fetch(Rank from, std::int64_t element, std::byte* to, std::int64_t elements);
  void copy_by_system(Rank peer, const std::function<void(Rank world_rank)>& how);
  void combine(std::int64_t count, Stores stores);
  void copy(std::byte* to, const std::byte* from, std::int64_t elements) const;

  [[nodiscard]] Window window(std::int64_t number) const;
  [[nodiscard]] std::int64_t place_of(std::int64_t window) const;
  [[nodiscard]] Extent share_of(const Window& window, Rank rank) const;
  [[nodiscard]] const std::byte* source(Rank from, const Window& window) const;
  [[nodiscard]] std::int64_t offered_offset(Rank from) const;
  [[nodiscard]] std::byte* output_at(std::int64_t element) const;
  void aim_at_results(std::int64_t element);
  [[nodiscard]] const std::byte* input_at(std::int64_t element) const;
  [[nodiscard]] Slot& slot(Rank rank) const {
    return group_.area(rank).slots[record_.sequence % 2];
  }
  [[nodiscard]] bool reached(Rank peer, Stage stage, std::int64_t chunks) const;
  [[nodiscard]] bool readers_reached(Stage stage, std::int64_t chunks) const;
  [[nodiscard]] bool sources_reached(Stage stage, std::int64_t chunks) const;
  void tell(Stage stage, std::int64_t chunks);

  GroupCore& group_;
  const Call& call_;
  const Geometry& geometry_;
  const Record& record_;
  const Rank me_;
  const Rank ranks_;
  const bool early_;  ///< short, and with a root
  State state_ = State::Begin;
  Way way_ = Way::Read;
  Stores stores_ = Stores::Cached;
  bool someone_waits_ = false;  ///< a rank offered its own buffer
  Rank seen_ = 0;               ///< ranks below this one are here
  std::int64_t unit_ = 0;       ///< elements of the vector, or of the longest block
  std::int64_t window_length_ = 0;
  std::int64_t windows_ = 0;
  std::int64_t chunk_bytes_ = 0;  ///< of staging memory, for a window
  std::int64_t first_place_ = 0;  ///< of a chunk, there
  std::int64_t staged_ = 0;
  std::int64_t worked_ = 0;
  std::int64_t taken_ = 0;
};

}  // namespace trireme::comm
