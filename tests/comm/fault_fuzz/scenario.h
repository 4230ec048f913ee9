// Scenario: one run of the fault fuzzer as a value. It says how ranks reach one another, what they do
// in a loop, and which faults hit them when. It prints and parses as text:
//
//   transport tcp
//   deadline 0.8
//   hosts 0 0 1
//   length 4
//   op allreduce 1048576
//   fault stop rank 2 at 1.25 for 1.7
//   fault cut host 1 at 2 for 0.7
//   fault kill rank 0 at 3
//
// `hosts` has the host of each rank. Times other than the deadline are multiples of it. A fault without
// `for` lasts to the end of the run. Functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::fault_fuzz {

/// Tls is Tcp with encryption. Mixed is shared memory inside a host and TCP between hosts.
enum class Transport { Shm, Tcp, Tls, Ucx, Mixed };
inline constexpr int kTransports = 5;
[[nodiscard]] std::string_view to_text(Transport transport);

/// One step of the workload. `elements` are 32-bit integers in each rank's largest buffer.
struct Op {
  enum class Kind {
    Barrier,
    Allreduce,
    RingAllreduce,  ///< with messages even if shared memory is available
    Broadcast,
    Reduce,
    Scatter,
    Gather,
    Allgather,
    ReduceScatter,
    Alltoall,
    Ring,     ///< every rank sends to the next one
    Pairs,    ///< neighbors send to each other with blocking calls
    Flood,    ///< all ranks send to all, all started at once
    Started,  ///< two collectives and a message in flight at once
    Split,    ///< an all-reduce in each half of the group
  };
  Kind kind = Kind::Barrier;
  std::int64_t elements = 1;
  friend bool operator==(const Op&, const Op&) = default;
};
inline constexpr int kOps = static_cast<int>(Op::Kind::Split) + 1;
[[nodiscard]] std::string_view to_text(Op::Kind kind);

struct Fault {
  enum class Kind {
    Kill,  ///< SIGKILL to a rank
    Stop,  ///< SIGSTOP to a rank, then SIGCONT
    Cut,   ///< unplugs a host's network cable, then plugs it back in
    Idle,  ///< a rank makes no calls for a while but stays alive
    Slow,  ///< limits a host's send rate to kSlowBitsPerSecond
  };
  static constexpr double kSlowBitsPerSecond = 100e6;
  Kind kind = Kind::Kill;
  int target = 0;     ///< a rank; a host for Cut and Slow
  double at = 0;      ///< after all ranks joined, in deadlines
  double length = 0;  ///< in deadlines; 0: to the end of the run

  [[nodiscard]] bool hits_host() const { return kind == Kind::Cut || kind == Kind::Slow; }
  friend bool operator==(const Fault&, const Fault&) = default;
};
[[nodiscard]] std::string_view to_text(Fault::Kind kind);
/// Whether both do the same to the same target at the same time. Then the end of one would end the other.
[[nodiscard]] bool overlap(const Fault& a, const Fault& b);

struct Scenario {
  Transport transport = Transport::Shm;
  double deadline = 0.8;   ///< in seconds
  std::vector<int> hosts;  ///< the host of each rank
  double length = 4;       ///< in deadlines; then ranks agree to end
  std::vector<Op> ops;     ///< done in turn
  std::vector<Fault> faults;

  [[nodiscard]] int ranks() const { return static_cast<int>(hosts.size()); }
  [[nodiscard]] int host_count() const;
  [[nodiscard]] int host_of(int rank) const { return hosts[rank]; }
  /// The problem with it, or "".
  [[nodiscard]] std::string problem() const;
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

[[nodiscard]] std::string to_text(const Scenario& scenario);
/// Lines that begin with # are comments. Throws Error(Input) naming the line.
[[nodiscard]] Scenario parse_scenario(std::string_view text);

struct Choices {
  Transport transport = Transport::Shm;
  /// Whether hosts can be namespaces here. If not, all ranks are on one host.
  enum class Hosts { One, Many } hosts = Hosts::Many;
};
/// The same scenario for the same seed and choices.
[[nodiscard]] Scenario random_scenario(std::uint64_t seed, const Choices& choices);

}  // namespace trireme::fault_fuzz
