// The parameter server: tables of vectors on servers that replicate every update before they acknowledge it. See
// docs/parameter-server.md for what is promised.
//
//   ParameterCoordinator coordinator({.secret = kSecret});
//   ParameterServer server({.coordinator = coordinator.address(), .secret = kSecret});
//   ParameterClient worker({.coordinator = coordinator.address(), .secret = kSecret});
//   const TableHandle weights = worker.create_table({.name = "w", .keys = 1000, .width = 8, .update = "sgd",
//                                                    .parameters = {0.1F}});
//   worker.push(weights, Keys::list(touched), gradient).wait();
//   worker.pull(weights, Keys::range(0, 1000), values).wait();
//
// Coordinator and servers run on threads of their own. A client may be used by several threads.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ps_metrics.h"
#include "trireme/ps_table.h"
#include "trireme/ps_update.h"
#include "trireme/tls_files.h"
#include "trireme/units.h"

namespace trireme::ps {

/// How long a server or worker may be silent before the cluster continues without it. A shorter one fails over faster, a
/// longer one tolerates longer pauses. Must be the same everywhere.
inline constexpr Seconds kDefaultLease{0.15};

enum class Encrypt : std::uint8_t { No, Yes };
[[nodiscard]] std::string_view to_text(Encrypt encrypt);

/// What the user has to do if only one of two nodes encrypts, for messages: the options of `trireme ps`.
inline constexpr std::string_view kEncryptionAdvice = "use --encrypt on all nodes or on none";

/// Folders that the coordinator and all servers see under these names.
struct SnapshotOptions {
  std::string folder{};  ///< to which snapshots are written; must exist; empty: none are
  Seconds every{60};     ///< between the begin of two; only the coordinator's counts
  /// A folder of snapshots, whose last complete one counts, or one snapshot: what a new cluster starts with. It may have
  /// another number of servers and replicas; tables and the number of shards are those of the snapshot. Empty: nothing.
  std::string restore{};
};

/// Of a coordinator that is one of several candidates.
enum class CoordinatorRole : std::uint8_t { Standby, Active };
/// "standby", "coordinator".
[[nodiscard]] std::string_view to_text(CoordinatorRole role);

struct ParameterCoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string secret{};  ///< of the job, at least 16 characters
  Encrypt encrypt = Encrypt::No;
  Seconds lease = kDefaultLease;
  std::uint32_t shards = 64;
  std::size_t replicas = 2;     ///< of each shard, on different servers
  std::size_t min_servers = 1;  ///< that must have joined before shards are assigned
  /// The updates that tables may have; nothing: the built-in ones.
  std::shared_ptr<const UpdateRegistry> updates{};
  std::string state_file{};  ///< keeps its state over a restart; empty: nowhere
  /// "etcd://10.0.0.1:2379,10.0.0.2:2379/NAME", or "etcd+tls://…": keeps its state in etcd. Of all coordinators with the
  /// same members and name one is active at a time; the others stand by and take over when it fails. Empty: this is the
  /// only coordinator.
  std::string membership{};
  TlsFiles etcd_tls{};  ///< for etcd+tls://
  SnapshotOptions snapshots{};
  std::function<void(const std::string&)> on_refused{};  ///< called with the peer and the reason
  std::function<void(const std::string&)> on_stopped{};  ///< called if it cannot continue
  /// Called when its role has changed, with its address; on a thread of its own if there is `membership`.
  std::function<void(CoordinatorRole, const std::string&)> on_role{};
};

/// Keeps the membership and the epochs. Never sees values.
class ParameterCoordinator {
 public:
  /// Is listening when it returns, or with `membership` has become a candidate. Throws Error(Usage), Error(System), or
  /// Error(Input) if the state file or the snapshot is damaged.
  explicit ParameterCoordinator(const ParameterCoordinatorOptions& options);
  ~ParameterCoordinator();
  ParameterCoordinator(const ParameterCoordinator&) = delete;
  ParameterCoordinator& operator=(const ParameterCoordinator&) = delete;

  /// "127.0.0.1:4000"; of a candidate, `listen` of its options.
  [[nodiscard]] std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct ParameterServerOptions {
  std::uint64_t number = 0;  ///< different for each server; a restarted one keeps its own
  /// Threads. Each has shards and a listener of its own, and handles all requests for its shards. Replicas of a shard are on
  /// different servers, whatever the number of reactors.
  std::size_t reactors = 1;
  std::string listen = "127.0.0.1:0";  ///< of reactor 0; with a port, reactor i listens at port + i
  std::string coordinator{};           ///< its address, or its `membership`
  TlsFiles etcd_tls{};                 ///< for etcd+tls://
  std::string secret{};
  Encrypt encrypt = Encrypt::No;
  Seconds lease = kDefaultLease;
  bool shares_memory = true;  ///< with workers and servers on this host, unless encrypted
  std::shared_ptr<const UpdateRegistry> updates{};  ///< nothing: the built-in ones
  SnapshotOptions snapshots{};
  // On threads of the server, one call at a time.
  std::function<void(const std::string&)> on_refused{};
  /// A reactor cannot continue; the others do.
  std::function<void(const std::string&)> on_stopped{};
};
/// What is wrong, in words; empty if nothing.
[[nodiscard]] std::vector<std::string> problems(const ParameterServerOptions& options);
/// "3", or "auto": one for each core that this process may use. Throws Error(Usage).
[[nodiscard]] std::size_t parse_reactors(const std::string& text);

/// Holds replicas of shards.
class ParameterServer {
 public:
  /// Is listening when it returns. Throws Error(Usage), Error(System), or Error(Input) if the snapshot is damaged.
  explicit ParameterServer(ParameterServerOptions options);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Hands its shards over to the other servers, while it serves them: nobody has to wait for its lease to end. Returns
  /// true once it holds none, no other server can take them, or the coordinator does not answer; false if that takes
  /// longer than `patience`, and may be called again. Afterwards destroy it.
  [[nodiscard]] bool hand_over(Seconds patience);

  /// By reactor: "127.0.0.1:4000".
  [[nodiscard]] const std::vector<std::string>& addresses() const;
  /// Of reactor 0.
  [[nodiscard]] const std::string& address() const { return addresses().front(); }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The keys of a request.
class Keys {
 public:
  /// begin to end - 1.
  [[nodiscard]] static Keys range(Key begin, Key end) { return {begin, end, {}}; }
  /// In ascending order, each once.
  [[nodiscard]] static Keys list(std::span<const Key> keys) { return {0, 0, keys}; }

  [[nodiscard]] Key begin() const noexcept { return begin_; }
  [[nodiscard]] Key end() const noexcept { return end_; }
  [[nodiscard]] std::span<const Key> listed() const noexcept { return listed_; }
  [[nodiscard]] std::size_t count() const {
    return listed_.empty() ? end_ - begin_ : listed_.size();
  }

 private:
  Keys(Key begin, Key end, std::span<const Key> listed)
      : begin_(begin), end_(end), listed_(listed) {}
  Key begin_;
  Key end_;
  std::span<const Key> listed_;
};

/// A table of the cluster.
struct TableHandle {
  std::uint32_t id = 0;
  std::uint32_t width = 1;
};

struct ParameterClientOptions {
  std::string coordinator{};  ///< its address, or its `membership`
  TlsFiles etcd_tls{};        ///< for etcd+tls://
  std::string secret{};
  Encrypt encrypt = Encrypt::No;
  std::string encryption_advice{kEncryptionAdvice};  ///< of the program that sets `encrypt`
  Seconds lease = kDefaultLease;
  Seconds patience{30};       ///< the deadline of each operation
  bool shares_memory = true;  ///< with servers on this host, unless encrypted
};

/// A server's reactor.
struct ServerReactor {
  std::uint64_t server = 0;  ///< its number
  std::uint64_t reactor = 0;
  friend auto operator<=>(const ServerReactor&, const ServerReactor&) = default;
};
/// "2", or "2.1" for reactor 1 of server 2.
[[nodiscard]] std::string to_text(const ServerReactor& place);
/// "2.1 > 0".
[[nodiscard]] std::string to_text(std::span<const ServerReactor> chain);

struct ShardPlace {
  std::uint64_t epoch = 0;
  std::vector<ServerReactor> chain{};  ///< head first
  std::vector<ServerReactor> learners{};
};
struct ClusterStatus {
  bool is_healthy = false;  ///< every shard has all its replicas
  /// "shard 3 has no live replica: it waits for server 1; …": what the cluster cannot recover from alone.
  std::vector<std::string> problems{};
  /// "server 0 at 127.0.0.1:4000"; "server 0.1 at …" for reactor 1. With ", is leaving", ", has left" until its lease has
  /// ended, or ", is silent" for longer than its lease.
  std::vector<std::string> servers{};
  std::vector<std::string> tables{};
  std::vector<ShardPlace> shards{};
};

/// Bytes of values that a client has exchanged with a server, repetitions included.
struct ServerTraffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

class ClientCore;
struct Operation;

/// An operation in progress.
class [[nodiscard]] PendingOperation {
 public:
  /// If it is still in progress, copies what it needs of the caller's buffers: a push then continues in the background,
  /// and what a pull returns is discarded.
  ~PendingOperation();
  PendingOperation(PendingOperation&&) noexcept;
  PendingOperation& operator=(PendingOperation&&) noexcept;
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;

  [[nodiscard]] bool is_done();
  /// Throws Error(Peer) at the deadline, with the table, the shard and its servers. A push continues in the background:
  /// it will be applied exactly once, or never if this process ends before.
  void wait();
  /// From the call until the last server's answer arrived. Requires that wait() has returned.
  [[nodiscard]] Seconds took() const;

 private:
  friend class ParameterClient;
  PendingOperation(std::shared_ptr<ClientCore> core, std::shared_ptr<Operation> operation);
  std::shared_ptr<ClientCore> core_;
  std::shared_ptr<Operation> operation_;
};

/// The user's part of an iteration on the worker, as an UpdateRule is on the servers: from the values of the keys that were
/// pulled, the gradient to push for them. Both have width floats for each key.
using Compute = std::function<void(std::span<const float> values, std::span<float> gradient)>;

/// A worker's connection to the servers.
class ParameterClient {
 public:
  /// Waits until the cluster is ready. Throws Error(Usage), or Error(Peer) at the deadline, or at once if the coordinator
  /// has another secret or encrypts differently.
  explicit ParameterClient(const ParameterClientOptions& options);
  /// Leaves the clocks that it joined.
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  /// Creates the table, or opens one that is the same. Throws Error(Usage) if the name is taken or the settings are wrong,
  /// Error(Peer) at the deadline.
  [[nodiscard]] TableHandle create_table(const TableSpec& spec);

  /// The update of the table is applied to the keys, once. Done when every replica has it. `gradient` has width floats for
  /// each key and must stay unchanged until the operation is done or destroyed. Throws Error(Usage) if the keys are not
  /// in the table, or in the wrong order, or the size is wrong.
  PendingOperation push(TableHandle table, const Keys& keys, std::span<const float> gradient);
  /// Reads the keys. The values of one shard are from one moment; every push that was acknowledged before is included,
  /// and so are this worker's own.
  PendingOperation pull(TableHandle table, const Keys& keys, std::span<float> values);
  /// A push, then a pull of the same keys, in one message each way.
  PendingOperation push_pull(TableHandle table, const Keys& keys, std::span<const float> gradient,
                             std::span<float> values);

  /// One iteration on these keys: pull, compute, push, and the servers' update. Returns when the push is acknowledged. Throws
  /// as push() and pull(), and what `compute` throws; nothing is pushed then.
  void iterate(TableHandle table, const Keys& keys, const Compute& compute);

  /// Waits until this worker may start its next iteration, by the table's consistency model. The first call joins the
  /// worker to the table's clocks. Throws Error(Peer) at the deadline, Error(Usage) if the cluster has another lease.
  void start_iteration(TableHandle table);
  /// The same with a deadline of its own. Returns whether the worker may start.
  [[nodiscard]] bool wait_to_start(TableHandle table, Seconds patience);
  /// The iteration is done. Others are told once its pushes are acknowledged.
  void complete_iteration(TableHandle table);
  /// This worker will not work on iterations before this one any more: where work comes from a pool, a worker does not
  /// take part in every iteration.
  void advance_clock(TableHandle table, ClockCount to);
  /// Iterations that this worker has completed.
  [[nodiscard]] ClockCount clock(TableHandle table) const;
  /// Iterations that the slowest worker has completed, as far as this one knows. Requires start_iteration().
  [[nodiscard]] ClockCount slowest_clock(TableHandle table) const;

  /// Asks the coordinator to put a shard on these servers, head first, as soon as it can; an empty list returns it to the
  /// consistent-hash ring, which also chooses the reactors. Does not wait; status() shows where the shard is.
  void move_shard(std::size_t shard, std::span<const std::uint64_t> servers);

  /// As of the coordinator's last message; waits for a fresh one. Throws Error(Peer) at the deadline.
  [[nodiscard]] ClusterStatus status();
  /// Asks the coordinator and all servers what they have counted; those that do not answer in time are not up.
  [[nodiscard]] std::vector<NodeMetrics> metrics(Seconds patience = {2});
  /// By the server's number, with all its reactors.
  [[nodiscard]] std::map<std::uint64_t, ServerTraffic> traffic() const;

 private:
  std::shared_ptr<ClientCore> core_;
};

}  // namespace trireme::ps
