// Comm: collectives and messages between the ranks of a job: threads, processes on one host, or processes across hosts.
// Every operation is checked: ranks that disagree get an error that shows who called what, and if a rank dies or stops,
// every rank waiting for it gets an error that names it.
//
//   #include <trireme/comm.h>
//   int main() {
//     return trireme::launch(4, [](trireme::World& world) {        // four processes
//       std::vector<float> gradient(1000, 1.0F);
//       world.all().run(trireme::allreduce<float>(gradient));      // in place; now all 4.0
//     });
//   }
//
// Threads. A World belongs to one rank. One thread at a time may call a World and its Groups; operations begun by
// start() continue on a thread of the World.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "trireme/comm_call.h"
#include "trireme/error.h"
#include "trireme/host_costs.h"
#include "trireme/schedule.h"
#include "trireme/tensor.h"
#include "trireme/transport_kind.h"
#include "trireme/tuning.h"
#include "trireme/units.h"

namespace trireme {

/// What went wrong between ranks.
enum class CommFault {
  Mismatch,  ///< ranks issued different calls
  Died,      ///< a rank's process ended without leaving
  Stopped,   ///< a rank was silent for longer than the deadline
  Left,      ///< a rank left the world while others were waiting for it
  Late,      ///< a rank is alive but did not reach the operation in time
  Corrupt,   ///< received data differs from the data sent
  Dead,      ///< the group failed in an earlier call; shrink() makes a new one
};
/// What the culprit did: "died", "sent damaged data".
[[nodiscard]] std::string_view to_text(CommFault fault);

/// An operation failed because of another rank. what() names the operation, the ranks and the call that each was in.
/// The group has failed: every later call on it throws until shrink() makes a new one.
class CommError : public Error {
 public:
  CommError(CommFault fault, std::vector<Rank> culprits, const std::string& message)
      : Error(ErrorKind::Peer, message), fault_(fault), culprits_(std::move(culprits)) {}
  [[nodiscard]] CommFault fault() const noexcept { return fault_; }
  /// The world ranks at fault, as far as known.
  [[nodiscard]] const std::vector<Rank>& culprits() const noexcept { return culprits_; }

 private:
  CommFault fault_;
  std::vector<Rank> culprits_;
};

namespace comm {
struct Job;
class GroupCore;
class WorldCore;
}  // namespace comm

/// An operation in flight. Dropping it does not cancel it: the destructor waits for it to complete and swallows its
/// error. Do not touch its buffers until then. Must not outlive its World.
class Pending {
 public:
  Pending() = default;  ///< already complete
  explicit Pending(std::shared_ptr<comm::Job> job);
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  [[nodiscard]] bool done() const;
  /// Returns when the operation completes; throws its error. Has the same deadline as a blocking call.
  void wait();
  /// False if the operation did not complete in time; it continues, and may be waited for again.
  [[nodiscard]] bool wait(Seconds at_most);

 private:
  std::shared_ptr<comm::Job> job_;
};

/// An ordered set of ranks that run collectives together. All ranks of a group make the same calls in the same order. A
/// copy refers to the same group. Must not outlive its World.
class Group {
 public:
  explicit Group(std::shared_ptr<comm::GroupCore> core);

  [[nodiscard]] Rank rank() const;  ///< this rank's place in the group
  [[nodiscard]] Rank size() const;
  /// World ranks, indexed by rank in the group.
  [[nodiscard]] const std::vector<Rank>& world_ranks() const;

  /// Runs the call; returns when this rank's result is ready and its buffers may be reused. Throws CommError, or
  /// Error(Usage) if this rank's call is invalid: the other ranks then get a CommError that says so, and the group has
  /// failed.
  void run(const Call& call);
  /// Starts the call. Calls on one group run in the order they were issued.
  [[nodiscard]] Pending start(const Call& call);
  /// Returns when all ranks have called it.
  void barrier();

  /// Point-to-point messages. A message matches the receive with its source and tag; messages with the same source and
  /// tag arrive in order. The lengths must be equal. send returns when the buffer may be reused, possibly before the
  /// other side receives. start_send sends only the beginning of a message over 64 KiB until the other side receives,
  /// so that an unexpected message takes none of the receiver's memory.
  template <class T>
  void send(std::span<const T> data, Rank to, std::int32_t tag = 0) {
    send_bytes(std::as_bytes(data), kDTypeOf<std::remove_const_t<T>>, to, tag);
  }
  template <class T>
  void receive(std::span<T> data, Rank from, std::int32_t tag = 0) {
    receive_bytes(std::as_writable_bytes(data), kDTypeOf<T>, from, tag);
  }
  template <class T>
  [[nodiscard]] Pending start_send(std::span<const T> data, Rank to, std::int32_t tag = 0) {
    return start_send(std::as_bytes(data), kDTypeOf<std::remove_const_t<T>>, to, tag);
  }
  template <class T>
  [[nodiscard]] Pending start_receive(std::span<T> data, Rank from, std::int32_t tag = 0) {
    return start_receive(std::as_writable_bytes(data), kDTypeOf<T>, from, tag);
  }
  [[nodiscard]] Pending start_send(std::span<const std::byte> data, DType dtype, Rank to,
                                   std::int32_t tag);
  [[nodiscard]] Pending start_receive(std::span<std::byte> data, DType dtype, Rank from,
                                      std::int32_t tag);

  /// New groups, one per color; ranks are ordered by key, then by their rank in this group. Every rank of this group
  /// must call it.
  [[nodiscard]] Group split(std::int64_t color, std::int64_t key = 0);
  /// The group of these ranks of this group, in this order. Only those ranks call it; ranks that create several such
  /// groups create them in the same order.
  [[nodiscard]] Group subset(const std::vector<Rank>& places);
  /// A working group of the survivors of a failure; every survivor calls it. Returns once all survivors have called it
  /// and agree on the membership: every rank that returns has the same members. Members known to be dead do not count;
  /// of the rest, ranks continue if they reach more than half, or exactly half including the lowest rank. All others
  /// get CommError(Stopped) and must not continue: neither a network partition nor a rank that was suspended and wakes
  /// up ever leads to two groups. Throws CommError(Late) if a live rank does not call it in time. On a group that has
  /// not failed, it first fails the group on all members.
  [[nodiscard]] Group shrink();

  /// The method that a call would use: "direct", "ring", …
  [[nodiscard]] std::string method_of(const Call& call) const;

 private:
  void send_bytes(std::span<const std::byte> data, DType dtype, Rank to, std::int32_t tag);
  void receive_bytes(std::span<std::byte> data, DType dtype, Rank from, std::int32_t tag);
  std::shared_ptr<comm::GroupCore> core_;
};

/// Elements in memory that all ranks of this host can access, so that collectives on them copy as little as possible.
/// Zero-initialized. Freed with the object, which must not outlive its World.
template <class T>
class SharedSpan {
 public:
  SharedSpan() = default;
  SharedSpan(std::span<T> elements, std::function<void(void*)> free)
      : elements_(elements), owner_(elements.data(), std::move(free)) {}
  [[nodiscard]] std::span<T> span() const { return elements_; }
  [[nodiscard]] T* data() const { return elements_.data(); }
  [[nodiscard]] std::size_t size() const { return elements_.size(); }
  T& operator[](std::size_t i) const { return elements_[i]; }

 private:
  std::span<T> elements_;
  std::unique_ptr<T[], std::function<void(void*)>> owner_{nullptr, [](void*) {}};
};

/// Must be equal on all ranks of a world, except for `join_timeout`, `bind`, `on_step`, `costs` and `tuning`. If they
/// differ, all ranks get an Error that names the difference.
struct WorldOptions {
  /// A rank that is silent for this long counts as stopped. Other timeouts derive from it: heartbeats are sent every
  /// eighth of it; an operation waits 30 times this long for a live rank that does not join.
  Seconds deadline{2.0};
  /// How long to wait for all ranks to join.
  Seconds join_timeout{60.0};
  /// Automatic: shared memory inside a host, TCP between hosts.
  TransportKind transport = TransportKind::Automatic;
  /// Whether TCP traffic (to the store and between ranks) is encrypted and authenticated: TLS 1.3, with keys derived
  /// from the job's secret. Does not cover shared memory inside a host.
  bool encrypt = false;
  /// Which messages carry a checksum: none, those that cross a network, or all. Direct operations send no messages, so
  /// they have none. With `encrypt`, Network adds none: TLS already authenticates the data.
  enum class Checksums { Off, Network, All } checksums = Checksums::Network;
  /// TCP connections to each peer on another host; long messages use all of them.
  int connections = 2;
  /// The address to listen on for peers on other hosts: one at which they can reach this machine (not 0.0.0.0). With
  /// the default, ranks on other hosts cannot connect.
  std::string bind = "127.0.0.1";
  /// Called when this rank enters step `step` (from 0) of an operation that uses messages, for traces and tests. Runs
  /// on whichever thread drives the operation.
  std::function<void(Operation operation, std::size_t step)> on_step{};
  /// The host's costs as measured by `trireme probe`, used to choose methods by predicted time. Absent: direct wherever
  /// possible, otherwise by built-in message costs. All ranks use rank 0's value.
  std::optional<HostCosts> costs{};
  /// Overrides that choice where it has a row. All ranks use rank 0's value.
  Tuning tuning{};
};
/// "off", "network", "all".
[[nodiscard]] std::string_view to_text(WorldOptions::Checksums checksums);

/// Payload bytes that a rank has sent to others, without headers or the library's internal messages. A direct
/// operation, in which ranks read one another's memory, sends none.
struct SentBytes {
  static constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::Barrier) + 1;
  std::array<std::int64_t, kOperations> by_operation{};  ///< collectives, by Operation
  std::int64_t messages = 0;                             ///< point-to-point

  [[nodiscard]] std::int64_t of(Operation operation) const {
    return by_operation.at(static_cast<std::size_t>(operation));
  }
};

/// One rank's view of a job.
class World {
 public:
  explicit World(std::unique_ptr<comm::WorldCore> core);
  /// Leaves the world: notifies the others and ends operations in flight. Never throws, never waits longer than the
  /// deadline.
  ~World();
  World(World&&) noexcept;
  World& operator=(World&&) = delete;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] Rank size() const;
  /// The group of all ranks, in order.
  [[nodiscard]] Group& all();
  /// The ranks of each host, by host.
  [[nodiscard]] const std::vector<std::vector<Rank>>& hosts() const;
  /// The transport between this rank and `peer`: "in-process", "shm", "tcp" or "ucx".
  [[nodiscard]] std::string_view reaches(Rank peer) const;
  /// Counted since this rank joined.
  [[nodiscard]] SentBytes bytes_sent() const;

  /// Throws Error(System) if memory is short, Error(Usage) in a world whose ranks share none (transports tcp and ucx).
  template <class T>
  [[nodiscard]] SharedSpan<T> allocate(std::size_t count) {
    if (count > std::size_t{1} << 48) {
      throw Error(ErrorKind::Usage, "more elements than memory can have");
    }
    void* memory = allocate_bytes(static_cast<std::int64_t>(count * sizeof(T)));
    return SharedSpan<T>(std::span<T>(static_cast<T*>(memory), count), releaser());
  }

 private:
  [[nodiscard]] void* allocate_bytes(std::int64_t bytes);
  [[nodiscard]] std::function<void(void*)> releaser();
  std::unique_ptr<comm::WorldCore> core_;
  std::unique_ptr<Group> all_;  ///< refers to core_, so destroyed before it
};

/// How a rank that was started externally finds its world.
struct JoinOptions {
  Rank rank = 0;
  Rank size = 1;
  /// "host:port" of the store through which ranks find one another; rank 0 hosts it.
  std::string store{};
  /// 64 hexadecimal digits, the same on all ranks. Processes without them are rejected.
  std::string secret{};
};
/// Returns when all ranks have joined. Throws Error(Peer) naming the missing ranks, or Error(System), if that takes
/// longer than WorldOptions::join_timeout.
[[nodiscard]] World join(const JoinOptions& where, const WorldOptions& options = {});
/// Which rank of a job this process is, according to the launcher that started it.
struct LaunchedRank {
  std::string launcher{};  ///< "Open MPI"; "" if it was started alone
  Rank rank = 0;
  Rank size = 1;
};
/// The rank that the next join() will use. Throws Error(Usage) if two sources disagree.
[[nodiscard]] LaunchedRank find_launched_rank(
    const std::function<std::optional<std::string>(const std::string&)>& variable);
/// Joins using the environment variables of torchrun, mpirun (Open MPI, MPICH) or srun, or TRIREME_RANK, TRIREME_SIZE,
/// TRIREME_STORE and TRIREME_SECRET; as a world of one if none are set. `variable` looks one up: libraries do not read
/// the environment. Throws Error(Usage) if two sources disagree.
[[nodiscard]] World join(
    const std::function<std::optional<std::string>(const std::string&)>& variable,
    const WorldOptions& options = {});

/// Runs `body` on `ranks` threads of this process, each with its own World, and waits for all. A rank that throws
/// leaves its world, so the others do not wait for it. Rethrows the error of the lowest rank that threw, a CommError
/// only if there is no other.
void run_threads(Rank ranks, const std::function<void(World&)>& body,
                 const WorldOptions& options = {});

/// Runs `body` in `ranks` processes on this host, forked from this one, and waits for all. Call it before creating any
/// thread. Returns 0 if every rank returned, else 1; writes each rank's error to standard error, prefixed with its
/// number. If a rank fails, terminates those that do not end by themselves. No rank outlives this call or this process.
int launch(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options = {});

}  // namespace trireme
