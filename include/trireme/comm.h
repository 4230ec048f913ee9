// Comm: collectives and messages between the ranks of a job, on threads, on processes of one host
// and across hosts. Every operation is checked: ranks that disagree get an error that shows who
// called what, and a rank that dies or stops is named to all that wait for it.
//
//   #include <trireme/comm.h>
//   int main() {
//     return trireme::launch(4, [](trireme::World& world) {        // four processes
//       std::vector<float> gradient(1000, 1.0F);
//       world.all().run(trireme::allreduce<float>(gradient));      // in place; now all 4.0
//     });
//   }
//
// Threads. A World belongs to one rank. One thread at a time makes calls on a World and its Groups;
// what start() began continues on a thread of the World.
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
#include "trireme/tuning.h"
#include "trireme/units.h"

namespace trireme {

/// What went wrong between ranks.
enum class CommFault {
  Mismatch,  ///< ranks called different things
  Died,      ///< a rank's process ended without leaving
  Stopped,   ///< a rank gave no sign of life for the deadline
  Left,      ///< a rank left the world while others waited for it
  Late,      ///< a rank is alive but did not reach the operation in time
  Corrupt,   ///< bytes that arrived are not what was sent
  Dead,      ///< the group failed earlier; shrink() it
};
/// What the culprit did: "died", "sent damaged data".
[[nodiscard]] std::string_view to_text(CommFault fault);

/// An operation failed because of another rank. what() names the operation, the ranks and what each
/// was doing. The group is dead afterwards: every call on it throws until shrink() makes a new one.
class CommError : public Error {
 public:
  CommError(CommFault fault, std::vector<Rank> culprits, const std::string& message)
      : Error(ErrorKind::Peer, message), fault_(fault), culprits_(std::move(culprits)) {}
  [[nodiscard]] CommFault fault() const noexcept { return fault_; }
  /// World ranks at fault, as far as known.
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

/// Something that was started. Dropping it does not stop it: the destructor waits for the end, and
/// swallows its error. Buffers must stay as they are until it is done. Must not outlive its World.
class Pending {
 public:
  Pending() = default;  ///< done from the beginning
  explicit Pending(std::shared_ptr<comm::Job> job);
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  [[nodiscard]] bool done() const;
  /// Returns when it is done; throws what went wrong. As patient as a blocking call.
  void wait();
  /// False if it was not done in time; it continues, and may be waited for again.
  [[nodiscard]] bool wait(Seconds at_most);

 private:
  std::shared_ptr<comm::Job> job_;
};

/// An ordered set of ranks that do operations together. All ranks of a group make the same calls in
/// the same order. A copy is the same group. Must not outlive its World.
class Group {
 public:
  explicit Group(std::shared_ptr<comm::GroupCore> core);

  [[nodiscard]] Rank rank() const;  ///< this rank's place in the group
  [[nodiscard]] Rank size() const;
  /// The world's ranks, by place in the group.
  [[nodiscard]] const std::vector<Rank>& world_ranks() const;

  /// Does the call; returns when this rank's buffers are free and its result is there. Throws
  /// CommError, or Error(Usage) if this rank's call cannot be: then the others get a CommError that says
  /// so, and the group is dead.
  void run(const Call& call);
  /// Begins the call. Calls of one group are done in the order in which they were made.
  [[nodiscard]] Pending start(const Call& call);
  /// Returns when all ranks have called it.
  void barrier();

  /// Messages between two ranks. A message goes to the receive with its source and tag; those of
  /// one source and tag arrive in order. The lengths must be equal. send returns when the buffer is
  /// free, which may be before the other side receives. Of a message over 64 KiB that is begun by start_send only the
  /// beginning goes before the other side receives: none of its memory is taken.
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

  /// New groups, one for each color; ranks ordered by key, then by their place here. Every rank of
  /// this group calls it.
  [[nodiscard]] Group split(std::int64_t color, std::int64_t key = 0);
  /// The group of these places of this group, in this order. Called by just those ranks; ranks that
  /// make several such groups make them in the same order.
  [[nodiscard]] Group subset(const std::vector<Rank>& places);
  /// A working group of those that are left, after a failure: every survivor calls it. Returns once all survivors came
  /// and agree on who they are: all that return have the same members. Members that are known to be dead do not count;
  /// of the rest, ranks continue that reach more than half of them, or exactly half with the lowest rank. All others get
  /// CommError(Stopped) and must not continue: a cut network, or a rank that stood still and wakes up, never leads to two
  /// groups. Throws CommError(Late) if a rank that is alive does not call it in time. On a group that has not failed it
  /// fails the group on all members first.
  [[nodiscard]] Group shrink();

  /// What a call would be done by: "direct", "ring", …
  [[nodiscard]] std::string method_of(const Call& call) const;

 private:
  void send_bytes(std::span<const std::byte> data, DType dtype, Rank to, std::int32_t tag);
  void receive_bytes(std::span<std::byte> data, DType dtype, Rank from, std::int32_t tag);
  std::shared_ptr<comm::GroupCore> core_;
};

/// Elements in memory that all ranks of this host can read, so that collectives on them move each
/// byte the least number of times. Zero when made. Freed with the object, which must not outlive its
/// World.
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

/// How ranks reach one another.
enum class TransportKind { Automatic, InProcess, SharedMemory, Tcp, Ucx };
[[nodiscard]] std::string_view to_text(TransportKind kind);
/// Throws Error(Usage) that lists the names.
[[nodiscard]] TransportKind parse_transport(std::string_view text);
/// Whether this build has it: ucx is left out where the library was not there.
[[nodiscard]] bool is_built(TransportKind kind);

/// The same on all ranks of a world; only `join_timeout`, `bind`, `on_step`, `costs` and `tuning` may
/// differ. Ranks that were started with different options all get an Error that names the difference.
struct WorldOptions {
  /// A rank that gives no sign of life for this long counts as stopped. Derived: heartbeats every
  /// eighth of it; an operation waits 30 times this long for a rank that is alive but does not join.
  Seconds deadline{2.0};
  /// How long to wait for all ranks to join.
  Seconds join_timeout{60.0};
  /// Automatic: shared memory inside a host, TCP between hosts.
  TransportKind transport = TransportKind::Automatic;
  /// Whether what goes over TCP (to the store and between ranks) is encrypted and protected against
  /// changes: TLS 1.3, with keys made from the job's secret. Shared memory inside a host is not.
  bool encrypt = false;
  /// Which messages carry a checksum: none, those that cross a network, or all. Direct operations
  /// send no messages and have none. Under `encrypt`, Network adds none: TLS has better ones.
  enum class Checksums { Off, Network, All } checksums = Checksums::Network;
  /// TCP connections to each peer on another host; long messages use all of them.
  int connections = 2;
  /// Where to listen, for peers on other hosts: the address of this machine at which they reach it
  /// (so not 0.0.0.0). With the default, ranks on other hosts cannot connect.
  std::string bind = "127.0.0.1";
  /// Told when this rank enters step `step` (from 0) of an operation done by messages: for traces and
  /// tests. Called on whatever thread drives the operation.
  std::function<void(Operation operation, std::size_t step)> on_step{};
  /// What the host costs, as `trireme probe` measures it: methods are chosen by what they should take.
  /// Absent: direct wherever that can be done, else by built-in costs of messages. All ranks go by what
  /// rank 0 was given.
  std::optional<HostCosts> costs{};
  /// What overrides that choice, where it has a row. All ranks go by what rank 0 was given.
  Tuning tuning{};
};
/// "off", "network", "all".
[[nodiscard]] std::string_view to_text(WorldOptions::Checksums checksums);

/// What a rank's messages have carried to others, in bytes: its data, without headers and the library's own messages to
/// itself. A direct operation, in which ranks read one another's memory, sends none.
struct SentBytes {
  static constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::Barrier) + 1;
  std::array<std::int64_t, kOperations> by_operation{};  ///< collectives, by Operation
  std::int64_t messages = 0;                             ///< sends

  [[nodiscard]] std::int64_t of(Operation operation) const {
    return by_operation.at(static_cast<std::size_t>(operation));
  }
};

/// This rank's part in a job.
class World {
 public:
  explicit World(std::unique_ptr<comm::WorldCore> core);
  /// Leaves: tells the others, and ends what was started. Never throws, never waits longer than the
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
  /// "in-process", "shm", "tcp", "ucx": how this rank reaches that one.
  [[nodiscard]] std::string_view reaches(Rank peer) const;
  /// Since it joined.
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
  std::unique_ptr<Group> all_;  ///< before core_ when destroyed: it refers to it
};

/// How a rank finds its world when something else started it.
struct JoinOptions {
  Rank rank = 0;
  Rank size = 1;
  /// "host:port" of the store where ranks meet; rank 0 serves it there.
  std::string store{};
  /// 64 hexadecimal digits, the same on all ranks; who does not have them is not let in.
  std::string secret{};
};
/// Returns when all ranks have joined. Throws Error(Peer) that names the missing ranks, or Error(System),
/// if that takes longer than WorldOptions::join_timeout.
[[nodiscard]] World join(const JoinOptions& where, const WorldOptions& options = {});
/// Joins by the variables of torchrun, mpirun (Open MPI, MPICH), srun, or TRIREME_RANK, TRIREME_SIZE,
/// TRIREME_STORE and TRIREME_SECRET; alone if there are none. `variable` looks one up: libraries do not
/// read the environment. Throws Error(Usage) if two sources disagree.
[[nodiscard]] World join(
    const std::function<std::optional<std::string>(const std::string&)>& variable,
    const WorldOptions& options = {});

/// Runs `body` as `ranks` threads of this process, each with its own World, and waits for all. A rank
/// that throws leaves its world, so the others do not wait for it; the error of the lowest rank that
/// threw is thrown again, a CommError only if there is no other.
void run_threads(Rank ranks, const std::function<void(World&)>& body,
                 const WorldOptions& options = {});

/// Runs `body` as `ranks` processes of this host, forked from this one, and waits for all. Call it
/// before making any thread. Returns 0 if every rank returned, else 1; a rank's error is written to
/// standard error after its number. The others are ended if a rank fails and they do not end by
/// themselves; none outlives this call, nor this process.
int launch(Rank ranks, const std::function<void(World&)>& body, const WorldOptions& options = {});

}  // namespace trireme
