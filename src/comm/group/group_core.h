// GroupCore: what a Group is made of. The caller's thread and the World's lane use it, one operation
// at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "comm/direct/area.h"
#include "comm/direct/passing.h"
#include "comm/group/group_model.h"
#include "comm/kernels/kernels.h"
#include "comm/op/op.h"
#include "comm/scheduled/hearing.h"
#include "comm/wire/geometry.h"
#include "comm/wire/record.h"
#include "comm/world/control.h"
#include "trireme/collective.h"
#include "trireme/collective_cost.h"
#include "trireme/comm.h"

namespace trireme::comm {

class WorldCore;

/// A call that has been checked: what is known of it before it is done.
struct Prepared {
  Call call{};
  Geometry geometry{};
  Method method{};
  Record record{};
};

class GroupCore {
 public:
  /// `members` are world ranks, by place; this rank is among them. `areas` are the ranks' areas where
  /// all are on one host, else empty. The world must live as long.
  /// Calls are numbered from `first_sequence` + 1: areas are used again, and their numbers only go up.
  GroupCore(WorldCore& world, std::uint64_t context, std::vector<Rank> members,
            std::vector<Area*> areas, std::uint64_t first_sequence);
  ~GroupCore();
  GroupCore(const GroupCore&) = delete;
  GroupCore& operator=(const GroupCore&) = delete;

  [[nodiscard]] WorldCore& world() const { return world_; }
  [[nodiscard]] std::uint64_t context() const { return context_; }
  [[nodiscard]] Rank rank() const { return me_; }
  [[nodiscard]] Rank size() const { return static_cast<Rank>(members_.size()); }
  [[nodiscard]] const std::vector<Rank>& members() const { return members_; }
  [[nodiscard]] bool sees_memory() const { return !areas_.empty(); }
  /// Whether every member can fetch from every other.
  [[nodiscard]] bool fetches() const { return fetches_; }
  /// How what is for peers is written: copies of whole inputs, in staging memory; chunks of them there; to their outputs.
  [[nodiscard]] Stores shots() const { return shots_; }
  [[nodiscard]] Passing& staging() { return staging_; }
  [[nodiscard]] Passing& sharing() { return sharing_; }
  /// Maps all pages that chunks go through, the first time; else call after call would come to new ones.
  void map_staging();
  /// How far the last chunk went round in its part of staging memory, in bytes; the same on all members.
  [[nodiscard]] std::int64_t& chunks_to() { return chunks_to_; }
  [[nodiscard]] Area& area(Rank place) const { return *areas_[static_cast<std::size_t>(place)]; }

  /// The number of the next call.
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_.fetch_add(1) + 1; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_.load(); }

  /// This rank is through with that call.
  void finish(std::uint64_t sequence) const {
    if (!areas_.empty()) {
      area(me_).finished.store(sequence, std::memory_order_release);
    }
  }

  // Calls that a rank may leave before it has seen what the others called (see direct.h).

  /// Whether every member is done with the call before the last, so that this one may take its place.
  [[nodiscard]] bool may_begin(std::uint64_t sequence);
  /// All members have begun this call, so they are done with the one before.
  void saw_all_begin(std::uint64_t sequence) {
    all_begun_ = sequence;
    all_finished_ = sequence - 1;
  }
  /// Whether this rank saw all members begin the call: then they will be done with it soon.
  [[nodiscard]] bool has_seen_all_begin(std::uint64_t sequence) const {
    return all_begun_ >= sequence;
  }
  /// This rank is through with that call, without having seen all members begin it.
  void finish_early(const Record& record);
  /// Whose record is in a slot of this rank's area.
  [[nodiscard]] std::uint64_t& written(std::uint64_t sequence) { return written_[sequence % 2]; }

  /// How often this was asked before with the same number: the turn of a new group of the same ranks.
  [[nodiscard]] std::uint64_t count_subset(std::uint64_t number) { return subsets_[number]++; }

  /// Wakes the members that sleep. After a seq_cst store that they wait for.
  void ring_members() const;

  /// Checks the call and gives it its number. The same call as last time (as in a training loop) is
  /// not checked again. Good until the next one. Throws Error(Usage).
  [[nodiscard]] const Prepared& prepare(const Call& call);
  /// This rank cannot make its call, or its own reduction threw: the others are told, and the group is dead.
  void abandon(const Call& call, const std::string& why);
  /// This rank shrinks the group: a group that was alive is dead on all members, which must do the same.
  void abandon_to_shrink();
  /// What the call will be done by; the same on all ranks if the calls are.
  [[nodiscard]] Method choose(const Call& call, const Geometry& geometry);
  /// A schedule of the catalogue, built once.
  [[nodiscard]] const Schedule& schedule(Operation operation, Algorithm algorithm, Rank root,
                                         std::int64_t segments);
  /// The segments of chain and double-tree for this size.
  [[nodiscard]] std::int64_t segments(Operation operation, Algorithm algorithm,
                                      std::int64_t bytes) const;

  /// Where ranks that do not see one another's memory find that they disagree.
  [[nodiscard]] Hearing& hearing() { return hearing_; }
  /// A member gives the group up.
  void hear_failure(std::uint64_t code, const std::string& text);

  /// Throws CommError if a member has died or stopped, or one that `missing` says is needed has left, or if the group
  /// has failed elsewhere. `what` names the operation for the message.
  void check_members(const std::function<bool(Rank place)>& missing,
                     const std::function<std::string()>& what);
  /// Fails the group because these members are alive but did not come to the operation in time.
  [[noreturn]] void fail_late(const std::vector<Rank>& places, Seconds stuck,
                              const std::string& what);
  /// Marks the group dead, tells the members, and throws. If it is dead already, throws what killed it.
  [[noreturn]] void fail(CommFault fault, std::vector<Rank> culprits, const std::string& message);
  /// Marks it dead, with the reason that later calls give.
  void die(const std::string& reason);
  /// After an operation on this rank's own buffers failed: waits until no living member can still be at
  /// them, at most the deadline.
  void await_release(std::uint64_t sequence) const;
  /// Throws CommError(Dead) if the group is.
  void require_alive() const;
  [[nodiscard]] bool is_dead() const { return dead_.load(std::memory_order_acquire); }

  /// Room for pointers, kept between calls so that a small one allocates nothing.
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> targets;

 private:
  [[nodiscard]] std::string last_seen(Rank place) const;
  [[noreturn]] void fail_for(Rank place, CommFault fault, const std::string& why,
                             const std::string& what);
  [[nodiscard]] bool is_final(Rank place);
  [[nodiscard]] Rank equal_ranks_per_host() const;
  [[nodiscard]] TransportKind slowest_transport() const;
  [[nodiscard]] Method choose_for_blocks(const Call& call, const Geometry& geometry);
  bool tell_failure(CommFault fault, Rank culprit, const std::string& message);
  void check_failures();

  WorldCore& world_;
  std::uint64_t context_;
  std::vector<Rank> members_;
  std::vector<Area*> areas_;
  std::vector<Bell*> bells_;  ///< of the others on this host
  Rank me_;
  bool fetches_ = false;
  Rank ranks_per_host_ = 0;    ///< where the members lie host by host, equally many on each; else 0
  TransportKind transport_{};  ///< the slowest between two members
  std::unique_ptr<GroupModel> model_;
  Stores shots_ = Stores::Streaming;
  Passing staging_;
  Passing sharing_;
  bool staging_mapped_ = false;
  std::int64_t chunks_to_ = 0;
  std::atomic<std::uint64_t> sequence_{0};
  std::uint64_t all_finished_ = 0;          ///< every member is known to be done with this call
  std::uint64_t all_begun_ = 0;             ///< this rank saw every member begin this call
  std::array<std::uint64_t, 2> written_{};  ///< by slot: the fingerprint of the record in it
  Prepared prepared_;
  bool may_repeat_ = false;  ///< prepared_ is of a call that can be recognized
  Hearing hearing_;
  std::atomic<bool> dead_{false};
  mutable Mutex mutex_;
  std::string reason_ TRIREME_GUARDED_BY(mutex_);
  struct Notice {
    std::uint64_t code = 0;
    std::string text{};
  };
  std::optional<Notice> notice_ TRIREME_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> subsets_;
  /// Ranks that have left, and when that was seen.
  Departures left_ TRIREME_GUARDED_BY(mutex_);
  std::map<std::tuple<Operation, Algorithm, Rank, std::int64_t>, Schedule> schedules_
      TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
