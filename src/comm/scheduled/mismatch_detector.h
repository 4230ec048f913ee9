// MismatchDetector: detects mismatched calls between ranks that do not share memory.
//
// Each rank remembers its calls. A rank that waits long, or gets a message of another call, queries the others; when
// all have answered, or enough time has passed, there is a verdict. Callable from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "base/mutex.h"
#include "comm/net/deadline.h"
#include "comm/wire/control.h"
#include "comm/wire/record.h"

namespace trireme::comm {

class MismatchDetector {
 public:
  /// How a record is sent to another member, as an inquiry or an answer. Does not wait.
  using Send = std::function<void(Rank world_rank, ControlKind kind, const Record& record)>;

  /// `members` are world ranks by rank in the group, `me` is this one's rank in the group.
  MismatchDetector(std::vector<Rank> members, Rank me, Send send);

  /// Records this rank's call.
  void remember(const Record& record);
  /// Queries all members if the call has waited for long; again each time the wait has doubled.
  void inquire(const Record& record, Seconds stuck);
  /// Queries all members now: a message showed that a member made a different call.
  void dispute(const Record& record);
  /// A member reports its call. `is_query`: it requests this rank's call.
  void receive(Rank world_rank, const Record& record, bool is_query);

  /// Members (ranks in the group) that have not reported this call or a later one.
  [[nodiscard]] std::vector<Rank> silent_in(std::uint64_t sequence);

  struct Verdict {
    std::vector<Rank> culprits{};  ///< world ranks; empty if it was too long ago to know
    std::string text{};
  };
  /// nullopt if there is no dispute, or members may still answer.
  [[nodiscard]] std::optional<Verdict> verdict();

 private:
  void ask(const Record& record) const;
  void open(std::uint64_t sequence) TRIREME_REQUIRES(mutex_);
  void forget_witnesses(std::uint64_t sequence) TRIREME_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Record> recall(std::uint64_t sequence) const TRIREME_REQUIRES(mutex_);
  [[nodiscard]] bool look_further_back(std::uint64_t sequence);

  static constexpr std::size_t kRemembered = 1024;

  const IndexedVector<Rank, Rank> members_;  ///< by place: the world rank
  const Rank me_;
  const Send send_;
  std::atomic<std::uint64_t> asked_{0};  ///< the last call that was inquired about
  std::atomic<double> query_after_{0};   ///< seconds until the next query
  std::atomic<bool> has_dispute_{false};
  Mutex mutex_;
  std::vector<Record> remembered_ TRIREME_GUARDED_BY(mutex_);  ///< by number; empty at first
  /// By place: the last call that the rank reported.
  IndexedVector<Rank, std::uint64_t> reached_ TRIREME_GUARDED_BY(mutex_);
  /// By place: the rank's call in the dispute.
  IndexedVector<Rank, Witness> witnesses_ TRIREME_GUARDED_BY(mutex_);
  std::uint64_t disputed_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< its number; 0: none
  Clock::time_point disputed_since_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
