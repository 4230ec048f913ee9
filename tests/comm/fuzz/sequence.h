// Sequence: a program for the ranks of one world, as a value. Every rank executes its own projection
// of the one global list of steps, in order, so a sequence cannot deadlock by design: the rank that
// is furthest behind finds all its peers at its step or past it.
//
// The text form has one step per line; parse_sequence(to_text(s)) == s.
//
//   world transport=shm ranks=2 hosts=0.0 checksums=network connections=2 costs=none skew=none end=alone
//   1 split parent=0 parts=1:0,2:1
//   2 reduce group=0 dtype=f32 reduction=sum order=any method=automatic values=exact root=0 count=9 sides=p0s0,s0n0
//   3 message group=0 from=0 to=1 tag=0 dtype=u8 count=10 send=p0+2 receive=s1
//   4 release group=1
//
// The number at the beginning of a line is the step's key, from which its values are generated. A
// side is the memory of the input and of the output, p(rivate), s(hared) or n(one), each with its
// offset in elements; `=` instead of the output is an in-place call; +N is a call that is started
// and waited for N steps later. Without +N the call blocks.
//
// Plain values; all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/comm.h"

namespace trireme::fuzz {

/// Tls is Tcp with WorldOptions::encrypt. Mixed is shared memory inside hosts and Tcp between them,
/// MixedTls the same with encryption.
enum class Transport { InProcess, SharedMemory, Tcp, Tls, Ucx, Mixed, MixedTls };
[[nodiscard]] std::string_view to_text(Transport transport);
/// Throws Error(Usage) that lists the names.
[[nodiscard]] Transport parse_fuzz_transport(std::string_view text);
[[nodiscard]] std::vector<Transport> all_transports();
/// Whether World::allocate is legal.
[[nodiscard]] bool shares_memory(Transport transport);
/// Whether ranks are on the hosts that the sequence names; otherwise on one.
[[nodiscard]] bool has_hosts(Transport transport);

enum class Memory : char { Private = 'p', Shared = 's', None = 'n' };

/// Where a buffer begins: this many elements past an aligned address.
struct Location {
  Memory memory = Memory::Private;
  int offset = 0;
  friend bool operator==(const Location&, const Location&) = default;
};

inline constexpr int kBlocking = -1;

/// One rank's part in a step.
struct Side {
  Location input{};
  Location output{};  ///< not used in place, nor by messages
  enum class Layout { Separate, InPlace } layout = Layout::Separate;
  int lag = kBlocking;  ///< steps until a started call is waited for
  friend bool operator==(const Side&, const Side&) = default;
};

struct Collective {
  int group = 0;
  Operation operation = Operation::Barrier;
  DType dtype = DType::F32;
  Reduction reduction = Reduction::Sum;
  /// Whether a UserReduction takes the place of `reduction`.
  enum class Combiner { BuiltIn, User } combiner = Combiner::BuiltIn;
  Order order = Order::Any;
  Method method{};
  /// Exact: results do not depend on the order of combining. Random: they do.
  enum class Values { Exact, Random } values = Values::Exact;
  Rank root = 0;
  std::int64_t count = 0;  ///< elements of the vector, or of each block
  /// Elements of each block, by place; for an all-to-all by source, then destination. Empty: equal.
  std::vector<std::int64_t> counts{};
  int repeat = 1;             ///< calls in sequence with the same buffers and new values
  std::vector<Side> sides{};  ///< by place
  friend bool operator==(const Collective&, const Collective&) = default;
};

struct Message {
  int group = 0;
  Rank from = 0;
  Rank to = 0;
  std::int32_t tag = 0;
  DType dtype = DType::U8;
  std::int64_t count = 0;
  Side sender{};
  Side receiver{};
  friend bool operator==(const Message&, const Message&) = default;
};

/// Makes groups of groups, by Group::split or, where there is one part, Group::subset.
struct NewGroups {
  struct Part {
    int id = 1;
    std::vector<Rank> places;  ///< of the parent, in the order of the new group
    friend bool operator==(const Part&, const Part&) = default;
  };
  enum class Kind { Split, Subset } kind = Kind::Split;
  int parent = 0;
  std::vector<Part> parts;
  friend bool operator==(const NewGroups&, const NewGroups&) = default;
};

/// Destroys the Group on all its ranks. Operations in flight on it continue.
struct Release {
  int group = 1;
  friend bool operator==(const Release&, const Release&) = default;
};

using Action = std::variant<Collective, Message, NewGroups, Release>;

struct Step {
  std::uint64_t key = 0;
  Action action;
  friend bool operator==(const Step&, const Step&) = default;
};

struct Sequence {
  Transport transport = Transport::InProcess;
  Rank ranks = 1;
  WorldOptions::Checksums checksums = WorldOptions::Checksums::Network;
  int connections = 2;
  /// WorldOptions::costs: absent, such that direct operations win, or such that messages do.
  enum class Costs { None, Plain, Chatty } costs = Costs::None;
  /// Whether ranks pause occasionally, so that they reach calls at different times.
  enum class Skew { None, Pauses } skew = Skew::None;
  /// Whether ranks leave the world as soon as they are done, or after a barrier.
  enum class End { Alone, Together } end = End::Alone;
  std::vector<int> hosts{0};  ///< of each rank
  std::vector<Step> steps;
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

/// World ranks of each group, by id; group 0 is the world.
using Groups = std::map<int, std::vector<Rank>>;
[[nodiscard]] Groups world_group(Rank ranks);
/// Tracks a step that creates or releases groups.
void update_groups(Groups& groups, const Step& step);
/// The group that a step is about.
[[nodiscard]] int group_of(const Step& step);
/// Whether all ranks of a group are on one host and share memory, so that Method::direct() is legal.
[[nodiscard]] bool is_direct_legal(const Sequence& sequence, const std::vector<Rank>& members);

/// Why the sequence is illegal, in one line, or "".
[[nodiscard]] std::string find_illegal(const Sequence& sequence);

/// Whether a call may request this algorithm.
[[nodiscard]] bool is_legal(const Collective& call, Algorithm algorithm, Rank ranks);

[[nodiscard]] std::string to_text(const Step& step);
[[nodiscard]] std::string to_text(const Sequence& sequence);
/// Throws Error(Input) naming the line.
[[nodiscard]] Sequence parse_sequence(std::string_view text);

}  // namespace trireme::fuzz
