// Agreements: a rank's active agreements, and completed ones, for which it still answers: a late member must learn the
// decision. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/indexed_vector.h"
#include "base/mutex.h"
#include "comm/world/agreement.h"

namespace trireme::comm {

class Agreements {
 public:
  /// Sends a message to another member, by its world rank. Must not wait, nor call this object.
  using Send = std::function<void(Rank to, std::uint64_t context, std::span<const std::byte>)>;
  explicit Agreements(Send send) : send_(std::move(send)) {}

  /// Joins an agreement: `members` are world ranks by rank in the group, `me` is this process's rank in the group.
  void begin(std::uint64_t context, std::vector<Rank> members, Rank me,
             std::vector<std::byte> payload);
  /// A message of another member; kept if this rank has not joined yet.
  void receive(std::uint64_t context, Rank from, std::span<const std::byte> bytes);
  void observe(std::uint64_t context, const std::vector<Standing>& seen);
  void withdraw(std::uint64_t context, const std::string& why);

  struct State {
    Agreement::Outcome outcome = Agreement::Outcome::Open;
    /// World ranks that continue, once decided, in the order of the group.
    std::vector<Rank> members{};
    std::vector<std::vector<std::byte>> payloads{};
    std::string reason{};         ///< why this rank is refused
    std::vector<Rank> missing{};  ///< world ranks that are alive but have not joined
  };
  [[nodiscard]] State state(std::uint64_t context);

 private:
  struct Entry {
    IndexedVector<Rank, Rank> members;
    Agreement agreement;
  };
  void deliver(Entry& entry, Rank from, std::span<const std::byte> bytes) TRIREME_REQUIRES(mutex_);
  void send_letters(std::uint64_t context, Entry& entry) TRIREME_REQUIRES(mutex_);

  Send send_;
  Mutex mutex_;
  std::map<std::uint64_t, Entry> entries_ TRIREME_GUARDED_BY(mutex_);
  /// What arrived before this rank joined, in order.
  std::map<std::uint64_t, std::vector<std::pair<Rank, std::vector<std::byte>>>> early_
      TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::comm
