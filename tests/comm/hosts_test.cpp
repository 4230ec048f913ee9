// Worlds across hosts, which are network namespaces of this machine: every operation, group and message, where some
// ranks share memory and some do not.
#include "comm/hosts.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "comm/small_numbers.h"
#include "trireme/collective.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::Hosts;
using test::kTwoByTwo;
using test::Network;
using test::Placement;
using test::require;
using test::run_on_hosts;
using test::value_of;

// The expected result of every operation.

template <class T>
std::vector<T> values_of(Rank rank, std::size_t from, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value_of<T>(rank, static_cast<std::int64_t>(from + i));
  }
  return values;
}

template <class T>
std::vector<T> sums_of(Rank ranks, std::size_t from, std::size_t count) {
  std::vector<T> sums(count);
  for (Rank r = 0; r < ranks; ++r) {
    const std::vector<T> values = values_of<T>(r, from, count);
    std::ranges::transform(sums, values, sums.begin(),
                           [](T a, T b) { return static_cast<T>(a + b); });
  }
  return sums;
}

/// One call on a group: its input and its expected output. `block` is the length of a rank's block.
template <class T>
struct Trial {
  Operation operation;
  Rank me;
  Rank ranks;
  Rank root;
  std::size_t block;

  [[nodiscard]] std::size_t whole() const { return block * static_cast<std::size_t>(ranks); }
  [[nodiscard]] std::size_t before(Rank r) const { return block * static_cast<std::size_t>(r); }

  [[nodiscard]] std::vector<T> input() const {
    switch (operation) {
      case Operation::Gather:
      case Operation::Allgather:
        return values_of<T>(me, 0, block);
      case Operation::Scatter:
        return me == root ? values_of<T>(me, 0, whole()) : std::vector<T>{};
      case Operation::Barrier:
        return {};
      default:
        return values_of<T>(me, 0, whole());
    }
  }

  /// The blocks that ranks have for this one, in order.
  [[nodiscard]] std::vector<T> gathered(std::size_t from) const {
    std::vector<T> all;
    for (Rank r = 0; r < ranks; ++r) {
      const std::vector<T> values = values_of<T>(r, from, block);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  [[nodiscard]] std::vector<T> expected() const {
    switch (operation) {
      case Operation::Broadcast:
        return values_of<T>(root, 0, whole());
      case Operation::Allreduce:
        return sums_of<T>(ranks, 0, whole());
      case Operation::Reduce:
        return me == root ? sums_of<T>(ranks, 0, whole()) : std::vector<T>{};
      case Operation::Scatter:
        return values_of<T>(root, before(me), block);
      case Operation::ReduceScatter:
        return sums_of<T>(ranks, before(me), block);
      case Operation::Gather:
        return me == root ? gathered(0) : std::vector<T>{};
      case Operation::Allgather:
        return gathered(0);
      case Operation::Alltoall:
        return gathered(before(me));
      case Operation::Barrier:
        return {};
    }
    return {};
  }
};

template <class T>
Call call_of(const Trial<T>& trial, std::vector<T>& in, std::vector<T>& out, const Method& method) {
  if (trial.operation == Operation::Broadcast) {
    out = in;
    return broadcast<T>(out, trial.root, {.method = method, .site = TRIREME_HERE});
  }
  return {.operation = trial.operation,
          .dtype = kDTypeOf<T>,
          .root = trial.root,
          .input = std::as_bytes(std::span(in)),
          .output = std::as_writable_bytes(std::span(out)),
          .options = {.method = method, .site = TRIREME_HERE}};
}

template <class T>
void try_operation(Group& group, Operation operation, const Method& method, std::size_t block,
                   Rank root) {
  const Trial<T> trial{operation, group.rank(), group.size(), root, block};
  std::vector<T> in = trial.input();
  const std::vector<T> expected = trial.expected();
  std::vector<T> out(expected.size());
  group.run(call_of(trial, in, out, method));
  const auto [is, want] = std::ranges::mismatch(out, expected);
  require(is == out.end(),
          fmt::format("{} by {} ({}), root {}, blocks of {} {}: element {} is wrong on rank {}",
                      to_text(operation), to_text(method), group.size(), root, block,
                      to_text(kDTypeOf<T>), is - out.begin(), group.rank()));
}

/// All operations with the group's own choice of method, at sizes up to slightly over 1 MiB, every root.
void try_all_operations(Group& group) {
  const std::size_t longest = ((std::size_t{1} << 20) + 3) / static_cast<std::size_t>(group.size());
  for (const Operation operation : all_operations()) {
    for (const std::size_t block : {std::size_t{0}, std::size_t{1}, std::size_t{4099}, longest}) {
      const Rank roots = has_root(operation) ? group.size() : 1;
      for (Rank root = 0; root < roots; ++root) {
        try_operation<std::uint8_t>(group, operation, {}, block, root);
        if (block < longest) {
          try_operation<std::int64_t>(group, operation, {}, block, root);
        }
      }
    }
  }
}

/// Every algorithm of every operation, from one root, short and long.
void try_all_algorithms(Group& group) {
  for (const Operation operation : all_operations()) {
    for (const Algorithm algorithm : algorithms_for(operation)) {
      for (const std::size_t block : {std::size_t{1}, std::size_t{9973}}) {
        try_operation<std::int32_t>(group, operation, Method::scheduled(algorithm), block,
                                    has_root(operation) ? group.size() - 1 : 0);
      }
    }
  }
}

/// 1 MiB and three bytes in one vector, which no number of ranks divides evenly.
void try_long_allreduces(Group& group) {
  constexpr std::size_t kBytes = (std::size_t{1} << 20) + 3;
  const auto expected = sums_of<std::uint8_t>(group.size(), 0, kBytes);
  for (const Algorithm algorithm : algorithms_for(Operation::Allreduce)) {
    auto data = values_of<std::uint8_t>(group.rank(), 0, kBytes);
    group.run(allreduce<std::uint8_t>(std::span(data), {.method = Method::scheduled(algorithm)}));
    require(data == expected, fmt::format("{}: wrong sum", to_text(algorithm)));
  }
}

/// Ranks by host, as World::hosts() specifies: sorted by the lowest rank of each.
std::vector<std::vector<Rank>> ranks_by_host(const Placement& placement) {
  std::vector<std::vector<Rank>> hosts(
      static_cast<std::size_t>(*std::ranges::max_element(placement)) + 1);
  for (std::size_t r = 0; r < placement.size(); ++r) {
    hosts[placement[r]].push_back(static_cast<Rank>(r));
  }
  std::ranges::sort(hosts);
  return hosts;
}

void check_reach(const World& world, const Placement& placement) {
  require(world.hosts() == ranks_by_host(placement), "wrong hosts");
  for (Rank r = 0; r < world.size(); ++r) {
    const bool same_host = placement[r] == placement[world.rank()];
    const std::string_view want =
        to_text(same_host ? TransportKind::SharedMemory : TransportKind::Tcp);
    require(world.reaches(r) == want,
            fmt::format("rank {} reaches rank {} by {}", world.rank(), r, world.reaches(r)));
  }
}

bool is_direct(const Group& group) {
  std::vector<std::int32_t> data(10);
  return group.method_of(allreduce<std::int32_t>(data)) == "direct";
}

/// Groups inside each host, which need no messages, and across hosts, which do.
void try_groups(World& world, const Placement& placement) {
  const int host = placement[world.rank()];
  const auto everyone = ranks_by_host(placement);
  const std::vector<Rank>& here =
      *std::ranges::find_if(everyone, [&](const std::vector<Rank>& ranks) {
        return std::ranges::find(ranks, world.rank()) != ranks.end();
      });
  Group inside = world.all().split(host, -world.rank());  // in reverse order
  std::vector<Rank> reversed(here.rbegin(), here.rend());
  require(inside.world_ranks() == reversed, "split: not the ranks of the host");
  require(is_direct(inside), "a group inside a host is not direct");
  try_all_operations(inside);

  Group listed = world.all().subset(here);
  require(is_direct(listed), "a subset inside a host is not direct");
  try_operation<std::int64_t>(listed, Operation::Allreduce, {}, 1000, 0);

  // One rank of each host, by its index there.
  const auto place = std::ranges::find(here, world.rank()) - here.begin();
  Group across = world.all().split(place);
  require(across.size() == 1 || !is_direct(across), "a group across hosts is direct");
  try_all_operations(across);
  world.all().barrier();
}

/// Operations in flight in two groups at once, with concurrent messages between all pairs.
void try_asynchronous(World& world) {
  constexpr std::size_t kCount = 30000;
  Group& all = world.all();
  Group other = all.split(0, -world.rank());
  std::vector<std::int64_t> first = values_of<std::int64_t>(world.rank(), 0, kCount);
  std::vector<std::int64_t> second = first;
  std::vector<Pending> pending;
  pending.push_back(all.start(allreduce<std::int64_t>(first)));
  pending.push_back(other.start(allreduce<std::int64_t>(second)));
  std::vector<std::vector<std::int64_t>> sent;
  std::vector<std::vector<std::int64_t>> got(world.size(), std::vector<std::int64_t>(kCount));
  sent.reserve(world.size());
  for (Rank r = 0; r < world.size(); ++r) {
    if (r != world.rank()) {
      sent.push_back(values_of<std::int64_t>(world.rank(), static_cast<std::size_t>(r), kCount));
      pending.push_back(all.start_receive<std::int64_t>(got[r], r, world.rank()));
      pending.push_back(all.start_send<std::int64_t>(sent.back(), r, r));
    }
  }
  for (Pending& one : pending) {
    one.wait();
  }
  const auto sums = sums_of<std::int64_t>(world.size(), 0, kCount);
  require(first == sums && second == sums, "a started all-reduce gave a wrong sum");
  for (Rank r = 0; r < world.size(); ++r) {
    require(r == world.rank() || got[r] == values_of<std::int64_t>(
                                               r, static_cast<std::size_t>(world.rank()), kCount),
            fmt::format("the message of rank {} arrived wrong", r));
  }
}

/// A message that visits all ranks in turn.
void try_messages(World& world) {
  Group& all = world.all();
  const Rank next = (all.rank() + 1) % all.size();
  const Rank previous = (all.rank() + all.size() - 1) % all.size();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300000}}) {
    std::vector<std::int32_t> data = values_of<std::int32_t>(7, 0, count);
    if (all.rank() == 0) {
      all.send<std::int32_t>(data, next, 5);
    }
    std::vector<std::int32_t> got(count);
    all.receive<std::int32_t>(got, previous, 5);
    require(got == data, "the message came back changed");
    if (all.rank() != 0) {
      all.send<std::int32_t>(got, next, 5);
    }
  }
}

struct Mixed {
  std::string name;
  Placement placement;
};
std::string mixed_name(const testing::TestParamInfo<Mixed>& info) {
  return info.param.name;
}

class MixedWorld : public Hosts, public testing::WithParamInterface<Mixed> {
 protected:
  /// Runs the body on the ranks of the setting.
  void run(const std::function<void(World&)>& body) {
    const Placement& placement = GetParam().placement;
    const Network network({.hosts = *std::ranges::max_element(placement) + 1});
    EXPECT_TRUE(run_on_hosts({.network = network, .placement = placement, .body = body}));
  }
};

TEST_P(MixedWorld, KnowsItsHostsAndRunsEveryOperation) {
  const Placement& placement = GetParam().placement;
  run([&](World& world) {
    check_reach(world, placement);
    try_all_operations(world.all());
    try_messages(world);
    try_asynchronous(world);
  });
}

TEST_P(MixedWorld, EveryAlgorithmIsCorrect) {
  run([](World& world) {
    try_all_algorithms(world.all());
    try_long_allreduces(world.all());
  });
}

TEST_P(MixedWorld, SplitsWithinAndAcrossHosts) {
  const Placement& placement = GetParam().placement;
  run([&](World& world) { try_groups(world, placement); });
}

INSTANTIATE_TEST_SUITE_P(Placed, MixedWorld,
                         testing::Values(Mixed{"2x2", kTwoByTwo}, Mixed{"3x1", {0, 1, 2}},
                                         Mixed{"Uneven", {0, 1, 1, 0, 1}},
                                         Mixed{"2x3InTurn", {0, 1, 0, 1, 0, 1}}),
                         mixed_name);

/// Ranks that bind to their host's address also find one another with UCX; neighbors as well.
TEST_F(Hosts, UcxReachesRanksOnOtherHosts) {
  if (!is_built(TransportKind::Ucx)) {
    GTEST_SKIP() << "this build has no transport ucx";
  }
  const Network network;
  EXPECT_TRUE(run_on_hosts({.network = network,
                            .placement = kTwoByTwo,
                            .body =
                                [](World& world) {
                                  for (Rank r = 0; r < world.size(); ++r) {
                                    require(world.reaches(r) == "ucx", "wrong transport");
                                  }
                                  try_all_algorithms(world.all());
                                  try_messages(world);
                                },
                            .options = {.transport = TransportKind::Ucx}}));
}

}  // namespace
}  // namespace trireme
