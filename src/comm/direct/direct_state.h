// DirectState: the state of a group between direct calls: its members' areas, the calls they are known to have
// finished, and the store policy.
//
// One call at a time, except where a function says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "comm/direct/area.h"
#include "comm/direct/store_policy.h"
#include "comm/kernels/combine.h"
#include "comm/transport/bell.h"
#include "comm/wire/record.h"

namespace trireme::comm {

/// The notice that a member published when it marked the group as failed: see Area::failed.
struct FailureNotice {
  std::uint64_t code = 0;
  std::string text{};
};

class DirectState {
 public:
  struct Options {
    std::vector<Area*> areas{};         ///< by rank in the group; they outlive this object
    std::vector<Bell*> bells{};         ///< of the other members; they outlive this object
    Rank rank = 0;                      ///< of this process in the group
    bool can_fetch = false;             ///< every member can copy from and to every other's memory
    Stores stores = Stores::Streaming;  ///< how to write to staging memory at first
    /// The number of the last call in these areas: areas are reused, and numbers only increase.
    std::uint64_t last_sequence = 0;
  };
  explicit DirectState(Options options);
  ~DirectState() = default;
  DirectState(const DirectState&) = delete;
  DirectState& operator=(const DirectState&) = delete;

  [[nodiscard]] Rank size() const { return static_cast<Rank>(areas_.size()); }
  [[nodiscard]] Area& area(Rank place) const { return *areas_[place]; }
  [[nodiscard]] const std::vector<Area*>& areas() const { return areas_.items(); }
  [[nodiscard]] bool can_fetch() const { return can_fetch_; }

  // Which calls members have begun and finished.

  /// Whether every member is done with the call before the last, so that this one may reuse its slot.
  [[nodiscard]] bool may_begin(std::uint64_t sequence);
  /// All members have started this call, so they are done with the previous one.
  void saw_all_begin(std::uint64_t sequence) {
    all_begun_ = sequence;
    all_finished_ = sequence - 1;
  }
  /// Whether this rank saw all members start the call: then they will be done with it soon.
  [[nodiscard]] bool has_seen_all_begin(std::uint64_t sequence) const {
    return all_begun_ >= sequence;
  }
  /// This rank is done with that call. Callable from any thread.
  void finish(std::uint64_t sequence) const {
    area(rank_).finished.store(sequence, std::memory_order_release);
  }
  /// This rank is done with that call, without having seen all members begin it (see direct.h).
  void finish_early(const Record& record);
  /// Wakes sleeping members. Call it after a seq_cst store that they wait for. Callable from any thread.
  void ring_members() const {
    for (Bell* bell : bells_) {
      bell->ring();
    }
  }
  /// The fingerprint of the record in this call's slot of this rank's area.
  [[nodiscard]] std::uint64_t& written(std::uint64_t sequence) { return written_[sequence % 2]; }

  // How data for peers is written: copies of whole inputs, chunks of them, peers' outputs.

  [[nodiscard]] Stores copies() const { return copies_; }
  [[nodiscard]] StorePolicy& staging() { return staging_; }
  [[nodiscard]] StorePolicy& sharing() { return sharing_; }
  /// Maps all pages that chunks pass through, on the first call; otherwise each call would fault on new ones.
  void map_staging();
  /// Where the last chunk ended in the circular staging memory, in bytes; the same on all members.
  [[nodiscard]] std::int64_t& chunks_to() { return chunks_to_; }

  // Failures. Callable from any thread.

  /// Tells all members that this rank marked the group as failed, and why.
  void publish_failure(const FailureNotice& notice) const;
  /// The first failure that another member published, if any.
  [[nodiscard]] std::optional<FailureNotice> find_failure() const;
  /// Whether a member can still read or write this rank's buffers for the call, which this rank has failed.
  [[nodiscard]] bool may_still_use(Rank place, std::uint64_t sequence) const;
  /// "; its last call was …", for messages.
  [[nodiscard]] std::string last_call_of(Rank place) const;

  /// Pointers of one combination, kept between calls so that a small one does not allocate.
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> targets;

 private:
  IndexedVector<Rank, Area*> areas_;
  std::vector<Bell*> bells_;
  Rank rank_;
  bool can_fetch_;
  Stores copies_;
  StorePolicy staging_;
  StorePolicy sharing_;
  bool staging_mapped_ = false;
  std::int64_t chunks_to_ = 0;
  std::uint64_t all_finished_;              ///< every member is known to be done with this call
  std::uint64_t all_begun_ = 0;             ///< this rank saw every member begin this call
  std::array<std::uint64_t, 2> written_{};  ///< by slot: the fingerprint of the record in it
};

}  // namespace trireme::comm
