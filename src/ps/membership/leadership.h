// Leadership: the right to be the coordinator of a cluster, of which several candidates hold at most one at a time, and the
// coordinator's state. Both are keys in etcd:
//
//   /trireme/ps/CLUSTER/coordinator   who leads, and where; ends with the leader's etcd lease
//   /trireme/ps/CLUSTER/state         what the coordinator must not forget
//
// A leader may act until `0.9 TTL` after it *sent* the last renewal that counts. etcd deletes the key a TTL or more after it
// *received* it, and only then can another candidate create it. So, as long as clocks run at the same rate to 10 %, one
// leader's last act is before the next one's first.
//
// A renewal counts only if a linearizable read after it still finds the key, and the same member answered both in the same
// election term. Otherwise the renewal may have come from a former leader of etcd, which answers renewals until it notices
// that it was replaced, while its successor lets the lease end. The read proves that the member's leader still was the leader
// after the renewal.
//
// A state is written only if the leader's key is still the one that it created and the state still the one that it wrote
// last. So a leader that was replaced cannot write, and a write that was sent twice happens once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "ps/membership/coordinator_store.h"
#include "ps/membership/etcd.h"

namespace trireme::ps {

/// Where the leader of the cluster is recorded.
[[nodiscard]] std::string leader_key(const EtcdLocation& location);
/// The address in the value of leader_key().
[[nodiscard]] std::string leader_address(const std::string& value);

/// A thread of its own renews it.
class Leadership final : public CoordinatorStore {
 public:
  /// How long a failed leader holds up its successor.
  static constexpr Seconds kTtl{5};

  struct Election {
    EtcdLease lease{};
    EtcdRevision created = 0;           ///< of the leader's key
    comm::Clock::time_point requested;  ///< when the lease was
  };
  Leadership(const EtcdLocation& location, const Election& election);
  /// Gives it up, so that another candidate can begin at once. Whoever acted by it must have stopped.
  ~Leadership() override;
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  [[nodiscard]] std::string name() const override;
  // Both repeat while etcd does not answer, until the leadership ends.
  [[nodiscard]] std::string load() override;
  void store(const std::string& state) override;
  void require_valid() override;
  /// Once false, it stays so. Any thread.
  [[nodiscard]] bool is_held() const;

 private:
  void run();
  [[nodiscard]] bool renew();
  [[nodiscard]] bool try_store(const std::string& state);
  void lose(const std::string& why);
  /// Of one call about the state.
  [[nodiscard]] comm::Deadline deadline() const;

  EtcdLocation location_;
  Election election_;
  Etcd states_;              ///< of the thread that stores
  EtcdRevision stored_ = 0;  ///< of the state
  Etcd renewals_;            ///< of thread_

  mutable Mutex mutex_;
  CondVar stopped_;
  bool is_stopping_ TRIREME_GUARDED_BY(mutex_) = false;
  comm::Clock::time_point valid_until_ TRIREME_GUARDED_BY(mutex_);
  std::string why_lost_ TRIREME_GUARDED_BY(mutex_);
  std::thread thread_;
};

struct Campaign {
  EtcdLocation location{};
  /// Starts to listen and returns the address; called when nobody leads, before each attempt to be elected.
  std::function<std::string()> listen{};
  const std::atomic<bool>* stopping = nullptr;        ///< ends the campaign
  std::function<void(const std::string&)> problem{};  ///< called when attempts begin to fail
};
/// Waits until the candidate is elected; nothing if it was stopped first.
[[nodiscard]] std::unique_ptr<Leadership> run_for_leader(const Campaign& campaign);

}  // namespace trireme::ps
