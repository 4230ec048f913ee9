// Links between hosts, which are network namespaces of this machine: rate-limited, and cut.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "comm/hosts.h"
#include "comm/run_ranks.h"
#include "comm/timed.h"
#include "trireme/collective.h"
#include "trireme/collective_cost.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::Hosts;
using test::kTwoByTwo;
using test::Network;
using test::now;
using test::Placement;
using test::require;
using test::run_on_hosts;

// Links of a known rate.

/// The bytes that a host sends to others when its ranks follow the schedule.
std::int64_t crossing_bytes(const Schedule& schedule, const Payload& payload,
                            const Placement& placement, int host) {
  std::int64_t bytes = 0;
  for (const Step& step : schedule.steps) {
    for_each_message(step, [&](const Message& message) {
      const int from = placement[message.from];
      if (from == host && placement[message.to] != host) {
        bytes += message_bytes(schedule, payload, message);
      }
    });
  }
  return bytes;
}

struct Measured {
  std::atomic<double> seconds{0};
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  std::atomic<bool> leave{false};
};

void await(const std::function<bool()>& condition) {
  const double end = now() + 20;
  while (!condition() && now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  require(condition(), "timed out");
}

/// What host 0 sent during one all-reduce, and how long the slowest rank took. Between the counts there is no other
/// traffic but heartbeats.
struct Cost {
  double seconds = 0;
  std::int64_t sent = 0;
};
Cost measure_allreduce(const Network& network, const Placement& placement, Algorithm algorithm,
                       const Payload& payload) {
  const test::Shared<Measured> measured;
  const auto ranks = static_cast<int>(placement.size());
  Cost cost;
  const auto body = [&](World& world) {
    std::vector<std::int32_t> data(payload.elements, world.rank());
    world.all().barrier();
    ++measured->ready;
    await([&] { return measured->go.load(); });
    const double begin = now();
    world.all().run(
        allreduce<std::int32_t>(std::span(data), {.method = Method::scheduled(algorithm)}));
    const double took = now() - begin;
    double slowest = measured->seconds;
    while (took > slowest && !measured->seconds.compare_exchange_weak(slowest, took)) {
    }
    ++measured->done;
    await([&] { return measured->leave.load(); });
    const std::int32_t sum = world.size() * (world.size() - 1) / 2;
    require(std::ranges::all_of(data, [&](std::int32_t x) { return x == sum; }), "wrong sum");
  };
  const auto while_running = [&] {
    await([&] { return measured->ready == ranks; });
    const std::int64_t before = network.sent_bytes(0);
    measured->go = true;
    await([&] { return measured->done == ranks; });
    cost = {measured->seconds, network.sent_bytes(0) - before};
    measured->leave = true;
  };
  EXPECT_TRUE(run_on_hosts(
      {.network = network, .placement = placement, .body = body, .while_running = while_running}));
  return cost;
}

TEST_F(Hosts, RingTakesAsLongAsLinkAllows) {
  constexpr double kRate = 200e6;
  const Payload payload{.elements = 1 << 20, .element_bytes = 4};
  const Network network({.hosts = 2, .rate = kRate});
  const Cost cost = measure_allreduce(network, {0, 1}, Algorithm::Ring, payload);
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 2});
  const std::int64_t bytes = count_traffic(ring, payload).sent[0].count;
  EXPECT_GE(cost.seconds, static_cast<double>(bytes - Network::kBurstBytes) * 8 / kRate);
  const CostModel link = CostModel::uniform({100e-6}, {8 / kRate}, {1e-9});
  const Seconds predicted = time_schedule(ring, payload, link).seconds;
  EXPECT_LT(cost.seconds, 3 * predicted.count) << "predicted " << predicted.count;
  RecordProperty("seconds", fmt::format("{:.4f}", cost.seconds));
  RecordProperty("predicted", fmt::format("{:.4f}", predicted.count));
}

/// The bytes on the link are those of the schedule, plus headers.
void expect_traffic(const Cost& cost, std::int64_t bytes) {
  EXPECT_GE(cost.sent, bytes);
  EXPECT_LE(static_cast<double>(cost.sent), 1.10 * static_cast<double>(bytes));
}

TEST_F(Hosts, TwoLevelSendsLessBetweenHostsThanBadlyPlacedRing) {
  const Payload payload{.elements = 1 << 19, .element_bytes = 4};
  const Placement in_turn{0, 1, 0, 1};
  const Network network({.hosts = 2, .rate = 2e9});
  const Cost flat = measure_allreduce(network, in_turn, Algorithm::Ring, payload);
  const Cost levels = measure_allreduce(network, kTwoByTwo, Algorithm::TwoLevel, payload);

  // Every hop of that ring is between hosts, so host 0 sends all that its two ranks send.
  const Schedule ring = build(Operation::Allreduce, Algorithm::Ring, {.ranks = 4});
  const Traffic traffic = count_traffic(ring, payload);
  EXPECT_EQ(crossing_bytes(ring, payload, in_turn, 0),
            traffic.sent[0].count + traffic.sent[2].count);
  expect_traffic(flat, traffic.sent[0].count + traffic.sent[2].count);

  const Schedule two_level =
      build(Operation::Allreduce, Algorithm::TwoLevel, {.ranks = 4, .ranks_per_node = 2});
  expect_traffic(levels, crossing_bytes(two_level, payload, kTwoByTwo, 0));
  EXPECT_LT(levels.sent, flat.sent / 2);
}

// Links that are cut.

/// What the ranks of a partitioned world found.
struct Cut {
  static constexpr std::size_t kMax = 8;
  std::atomic<int> running{0};
  std::atomic<double> cut{0};
  std::array<std::atomic<double>, kMax> noticed{};
  std::array<std::atomic<int>, kMax> fault{};
  std::array<std::atomic<unsigned>, kMax> culprits{};  ///< a bit for each rank
  std::array<std::atomic<unsigned>, kMax> survivors{};
  std::array<std::atomic<double>, kMax> shrunk{};
  std::array<std::array<char, 400>, kMax> text{};
};

unsigned bits_of(const std::vector<Rank>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), 0U, [](unsigned bits, Rank r) {
    return bits | 1U << static_cast<unsigned>(r);
  });
}

void run_until_cut(World& world, Cut& cut) {
  const auto me = static_cast<std::size_t>(world.rank());
  std::vector<std::int64_t> data(20000);
  world.all().barrier();
  ++cut.running;
  try {
    for (;;) {
      world.all().run(allreduce<std::int64_t>(data));
    }
  } catch (const CommError& error) {
    cut.noticed[me] = now();
    cut.fault[me] = static_cast<int>(error.fault());
    cut.culprits[me] = bits_of(error.culprits());
    const std::string text = error.what();
    std::copy_n(text.begin(), std::min(text.size(), cut.text[me].size() - 1), cut.text[me].begin());
  }
  std::optional<Group> survivors;
  try {
    survivors = world.all().shrink();
  } catch (const CommError& error) {
    require(
        error.fault() == CommFault::Stopped && error.culprits() == std::vector<Rank>{world.rank()},
        error.what());
    cut.shrunk[me] = now();
    return;
  }
  Group& rest = *survivors;
  data.assign(data.size(), 1);
  rest.run(allreduce<std::int64_t>(data));
  require(std::ranges::all_of(data, [&](std::int64_t x) { return x == rest.size(); }), "wrong sum");
  cut.survivors[me] = bits_of(rest.world_ranks());
  cut.shrunk[me] = now();
}

/// Whether a side of a partitioned world continues: more than half of the ranks, or half including the lowest.
bool continues(unsigned side, std::size_t ranks) {
  const auto count = static_cast<std::size_t>(std::popcount(side));
  return 2 * count > ranks || (2 * count == ranks && (side & 1U) != 0);
}

/// Unplugs a host in the middle of a run; every rank must name only ranks of the other side, in time, and exactly one
/// side continues.
void cut_off(const Placement& placement, int host, Seconds deadline) {
  const Network network({.hosts = *std::ranges::max_element(placement) + 1});
  const test::Shared<Cut> cut;
  const auto ranks = static_cast<int>(placement.size());
  const bool all_well =
      run_on_hosts({.network = network,
                    .placement = placement,
                    .body = [&](World& world) { run_until_cut(world, *cut); },
                    .options = {.deadline = deadline},
                    .while_running =
                        [&] {
                          await([&] { return cut->running == ranks; });
                          std::this_thread::sleep_for(std::chrono::milliseconds(100));
                          network.unplug(host);
                          cut->cut = now();
                        },
                    .at_most = {20.0}});
  EXPECT_TRUE(all_well);
  for (std::size_t r = 0; r < placement.size(); ++r) {
    unsigned near = 0;
    unsigned far = 0;
    for (std::size_t other = 0; other < placement.size(); ++other) {
      ((placement[r] == host) == (placement[other] == host) ? near : far) |= 1U << other;
    }
    const std::string what = fmt::format("rank {}: {}", r, cut->text[r].data());
    EXPECT_NE(cut->culprits[r], 0U) << what;
    EXPECT_EQ(cut->culprits[r] & ~far, 0U) << what;
    EXPECT_EQ(cut->fault[r], static_cast<int>(CommFault::Stopped)) << what;
    EXPECT_LT(cut->noticed[r] - cut->cut, 1.5 * deadline.count) << what;
    EXPECT_EQ(cut->survivors[r], continues(near, placement.size()) ? near : 0U) << what;
    EXPECT_LT(cut->shrunk[r] - cut->cut, 4 * deadline.count) << what;
  }
}

TEST_F(Hosts, CutOffRanksAreReportedInTimeAndOneSideContinues) {
  cut_off(kTwoByTwo, 1, {0.5});
}

TEST_F(Hosts, OtherHostsReportCutOffRank) {
  cut_off({0, 1, 2}, 2, {0.5});
}

TEST_F(Hosts, CutOffRankZeroIsReported) {
  cut_off({0, 1, 1}, 0, {0.5});
}

/// A cable that is unplugged for less than the deadline only costs time. TCP alone would stay silent for up to twice as
/// long.
void interrupt_for(double seconds) {
  const Network network;
  const test::Shared<Cut> cut;
  const auto body = [&](World& world) {
    std::vector<std::int64_t> data(20000);
    world.all().barrier();
    ++cut->running;
    std::int64_t rounds = 0;
    for (double end = now() + seconds + 1; rounds < 10 || data[0] == 0; ++rounds) {
      data.assign(data.size(), now() > end ? 1 : 0);  // the slowest clock ends it for all
      world.all().run(allreduce<std::int64_t>(std::span(data), {.reduction = Reduction::Min}));
    }
  };
  EXPECT_TRUE(run_on_hosts({.network = network,
                            .placement = kTwoByTwo,
                            .body = body,
                            .options = {.deadline = {2.0}},
                            .while_running = [&] {
                              await([&] { return cut->running == 4; });
                              std::this_thread::sleep_for(std::chrono::milliseconds(100));
                              network.unplug(1);
                              std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
                              network.plug_back(1);
                            }}));
}

TEST_F(Hosts, SurvivesShortInterruption) {
  interrupt_for(0.5);
}
TEST_F(Hosts, SurvivesInterruptionOfTwoThirdsOfDeadline) {
  interrupt_for(1.35);
}
TEST_F(Hosts, SurvivesInterruptionOfThreeQuartersOfDeadline) {
  interrupt_for(1.5);
}

}  // namespace
}  // namespace trireme
