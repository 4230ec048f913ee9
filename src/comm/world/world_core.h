// WorldCore: one rank's side of a world: the transports to each peer, the mailbox over them, the engine, and the
// monitoring of the peers. Groups build on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/indexed_vector.h"
#include "base/mutex.h"
#include "comm/direct/area.h"
#include "comm/direct/direct_state.h"
#include "comm/op/engine.h"
#include "comm/op/messenger.h"
#include "comm/op/scratch.h"
#include "comm/transport/memory.h"
#include "comm/transport/transport.h"
#include "comm/wire/control.h"
#include "comm/wire/mailbox.h"
#include "comm/world/agreements.h"
#include "comm/world/departures.h"
#include "comm/world/exchanges.h"
#include "comm/world/group_listener.h"
#include "comm/world/heartbeat.h"
#include "comm/world/watch.h"
#include "trireme/comm.h"

namespace trireme::comm {

/// How a rank failed.
struct Failure {
  CommFault fault = CommFault::Died;
  std::string text{};
  Standing standing = Standing::Silent;  ///< how it counts when the others agree on the survivors
};

/// The parts of a world.
struct WorldParts {
  Rank rank = 0;
  Rank size = 1;
  WorldOptions options{};
  IndexedVector<Rank, std::string> hosts{};  ///< by rank: the name of its host
  IndexedVector<Rank, Transport*> reach{};   ///< by rank: the transport to it; this rank: any
  std::vector<std::unique_ptr<Transport>> transports{};
  std::unique_ptr<Heartbeat> heartbeat{};  ///< where there are peers on other hosts
  Area* first_area = nullptr;              ///< for the group of all, where all are on one host
  IndexedVector<Rank, std::uint64_t> area_places{};  ///< of all ranks' first areas
};

class WorldCore {
 public:
  /// Handles no message before start(), so that the group of all ranks exists when the first one arrives.
  explicit WorldCore(WorldParts parts);
  ~WorldCore();
  WorldCore(const WorldCore&) = delete;
  WorldCore& operator=(const WorldCore&) = delete;

  [[nodiscard]] Rank rank() const { return parts_.rank; }
  [[nodiscard]] Rank size() const { return parts_.size; }
  [[nodiscard]] const WorldOptions& options() const { return parts_.options; }
  /// How long an operation waits for a live rank that does not join.
  [[nodiscard]] Seconds patience() const {
    constexpr double kDeadlines = 30;
    return {kDeadlines * options().deadline.count};
  }
  /// Announces this rank to the peers on this host, and starts watching all peers.
  void start();

  [[nodiscard]] Messenger& messages() { return *messages_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] ScratchPool& scratch() { return scratch_; }
  /// Requires has_memory().
  [[nodiscard]] HostMemory& memory() { return *memory_; }
  [[nodiscard]] bool has_memory() const { return memory_ != nullptr; }
  [[nodiscard]] Transport& reach(Rank peer) { return *parts_.reach[peer]; }
  [[nodiscard]] const std::string& host(Rank rank) const { return parts_.hosts[rank]; }
  /// The page of a rank of this host, or nothing.
  [[nodiscard]] RankPage* page(Rank rank);
  /// Whether all these ranks see this rank's memory, and it theirs.
  [[nodiscard]] bool share_memory(const std::vector<Rank>& ranks);
  [[nodiscard]] const std::vector<std::vector<Rank>>& hosts() const { return by_host_; }

  // Failures: detected by the watch or by a broken stream; read by waiting threads. The first failure of a rank counts.
  void report(Rank rank, const Failure& failure);
  /// Also that a rank of this host has left.
  [[nodiscard]] std::optional<Failure> failure(Rank rank);
  [[nodiscard]] bool has_failures() const { return has_failures_.load(std::memory_order_acquire); }
  /// This rank stops communicating with that one, and notifies it.
  void declare_dead(Rank rank, const std::string& why);
  /// Whether nothing more is expected from a rank that left or failed.
  [[nodiscard]] bool is_final(Rank rank, Departures& departures);

  /// Throws CommError(Stopped) if the others declared this rank dead because it was silent.
  void require_not_declared_dead() const {
    if (own_page_ != nullptr && own_page_->verdict.load(std::memory_order_acquire) != 0) {
      throw_declared_dead();
    }
  }
  [[noreturn]] void throw_declared_dead() const;

  // Areas. One that a group no longer needs is reused when no peer can still be reading it.
  [[nodiscard]] Area* take_area();
  void retire_area(Area* area, std::vector<Area*> peers, std::uint64_t last);

  /// By rank, for the group of all ranks; empty unless all ranks share memory and the group is small enough for direct
  /// operations.
  [[nodiscard]] std::vector<Area*> first_areas();

  /// Messages about the group of this context go to the listener while it exists.
  void listen(std::uint64_t context, const std::shared_ptr<GroupListener>& group);
  [[nodiscard]] Exchanges& exchanges() { return exchanges_; }
  [[nodiscard]] Agreements& agreements() { return agreements_; }
  void post_control(Rank to, ControlKind kind, std::uint64_t context,
                    std::span<const std::byte> data);

 private:
  class WorldIdle;
  struct Retired {
    Area* area;
    std::vector<Area*> peers;
    std::uint64_t last;
  };

  void connect_transports();
  void connect_peers();
  void handle_control(Rank from, const PieceHeader& header, std::span<const std::byte> data);
  void handle_failure(std::uint64_t context, const FailureNotice& notice);
  void handle_group_control(ControlKind kind, Rank from, std::uint64_t context,
                            std::span<const std::byte> data);
  [[nodiscard]] std::shared_ptr<GroupListener> listener(std::uint64_t context);
  void tick();
  void check_peer(Rank rank, std::int64_t now);
  void note_bytes(Rank rank);
  [[nodiscard]] bool may_be_declared_dead(Rank by) const;
  void report_loss(Rank rank, LossKind kind, const std::string& why);
  void say_goodbye();
  void await_farewells();

  WorldParts parts_;
  HostMemory* memory_ = nullptr;
  RankPage* own_page_ = nullptr;  ///< if a transport has memory, which lives as long as this object
  Transport* network_ = nullptr;  ///< the one that polls, if any peer uses it
  std::vector<std::vector<Rank>> by_host_;
  std::unique_ptr<Bell> own_bell_ = std::make_unique<Bell>();  ///< if no page is shared
  std::unique_ptr<WorldIdle> idle_;
  Mailbox mailbox_;
  std::unique_ptr<Messenger> messages_;
  ScratchPool scratch_;
  std::unique_ptr<Engine> engine_;
  Exchanges exchanges_;
  Agreements agreements_;

  mutable Mutex mutex_;
  IndexedVector<Rank, std::optional<Failure>> failures_ TRIREME_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::weak_ptr<GroupListener>> groups_ TRIREME_GUARDED_BY(mutex_);
  /// Groups that another rank could not create, before this rank created them.
  std::map<std::uint64_t, FailureNotice> early_failures_ TRIREME_GUARDED_BY(mutex_);
  std::vector<Retired> retired_ TRIREME_GUARDED_BY(mutex_);
  std::atomic<bool> has_failures_{false};
  // Of peers behind a network, by rank, in nanoseconds of the steady clock.
  IndexedVector<Rank, std::atomic<std::int64_t>> heard_;  ///< when the peer's last bytes arrived
  /// When the peer's last heartbeat datagram arrived.
  IndexedVector<Rank, std::atomic<std::int64_t>> beaten_;
  /// After this process stalled: the peer may have declared this rank dead, unless it sends something after this time.
  IndexedVector<Rank, std::atomic<std::int64_t>> doubted_until_;
  std::atomic<std::int64_t> last_tick_{0};
  IndexedVector<Rank, std::atomic<bool>> farewells_;  ///< by rank: it sends nothing more

  std::unique_ptr<Watch> watch_;  ///< last: it calls the rest
};

}  // namespace trireme::comm
