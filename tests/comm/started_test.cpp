// Started calls and messages: their order, their number, their sizes.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/rendezvous_helpers.h"
#include "comm/run_ranks.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::require;
using test::run_ranks;

class Started : public testing::TestWithParam<TransportKind> {};

// Message order: started and blocking ones of one source and tag are one sequence.

constexpr int kPairs = 200;

TEST_P(Started, StartedAndBlockingSendsArriveInOrder) {
  run_ranks(GetParam(), 2, [](World& world) {
    Group& all = world.all();
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const std::vector<std::int64_t> first{2 * i};
      const std::vector<std::int64_t> second{2 * i + 1};
      if (world.rank() == 0) {
        Pending started = all.start_send<std::int64_t>(first, 1, 5);
        all.send<std::int64_t>(second, 1, 5);
        started.wait();
      } else {
        for (const auto& expected : {first, second}) {
          std::vector<std::int64_t> got(1);
          all.receive<std::int64_t>(got, 0, 5);
          require(got == expected, fmt::format("expected {}, received {}", expected[0], got[0]));
        }
      }
    }
  });
}

TEST_P(Started, StartedAndBlockingReceivesCompleteInOrder) {
  run_ranks(GetParam(), 2, [](World& world) {
    Group& all = world.all();
    for (std::int64_t i = 0; i < kPairs; ++i) {
      if (world.rank() == 0) {
        for (const std::int64_t value : {2 * i, 2 * i + 1}) {
          all.send<std::int64_t>(std::vector<std::int64_t>{value}, 1, 5);
        }
      } else {
        std::vector<std::int64_t> first(1);
        std::vector<std::int64_t> second(1);
        Pending started = all.start_receive<std::int64_t>(first, 0, 5);
        all.receive<std::int64_t>(second, 0, 5);
        started.wait();
        require(first[0] == 2 * i && second[0] == 2 * i + 1,
                fmt::format("pair {}: {} before {}", i, first[0], second[0]));
      }
    }
  });
}

// Counts that exceed any memory.

TEST_P(Started, RejectsOverflowingCounts) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  run_ranks(GetParam(), 2, [](World& world) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{kHuge, kHuge}, std::vector<std::int64_t>{kHuge - 1, kHuge - 1},
          std::vector<std::int64_t>{kHuge + kHuge / 2 + 1, kHuge / 2 + 1}}) {
      std::vector<std::int64_t> in(1);
      std::vector<std::int64_t> out(2);
      Group group = world.all().split(0);
      try {
        group.run(with_counts(allgather<std::int64_t>(in, out), counts));
        require(false, "counts were accepted");
      } catch (const Error& error) {
        require(std::string(error.what()).find("2^62") != std::string::npos, error.what());
      }
    }
  });
}

/// All ranks agree, and the buffers have as many elements as the counts add up to in 64 bits: none.
TEST_P(Started, RejectsCountsWhoseSumWrapsAround) {
  const std::vector<std::int64_t> counts(4, std::int64_t{1} << 62);
  run_ranks(GetParam(), 4, [&](World& world) {
    try {
      world.all().run(with_counts(
          alltoall<std::uint8_t>(std::span<const std::uint8_t>(), std::span<std::uint8_t>()),
          counts, counts));
      require(false, "counts were accepted");
    } catch (const Error& error) {
      require(std::string(error.what()).find("2^62") != std::string::npos, error.what());
    }
  });
}

/// Started work does not take quadratic time: the bound is far above linear time and far below quadratic time.
TEST_P(Started, ThousandsOfStartedCallsAndMessagesComplete) {
  constexpr std::size_t kMany = 5000;
  run_ranks(GetParam(), 2, [](World& world) {
    std::vector<std::int64_t> values(kMany, 1);
    std::vector<std::int64_t> sent(kMany, 3);
    std::vector<std::int64_t> got(kMany, 0);
    std::vector<Pending> pending;
    const Rank other = 1 - world.rank();
    for (std::size_t i = 0; i < kMany; ++i) {
      const auto tag = static_cast<std::int32_t>(i);
      pending.push_back(
          world.all().start(allreduce<std::int64_t>(std::span(values).subspan(i, 1))));
      pending.push_back(world.all().start_receive<std::int64_t>(
          std::span(got).subspan(kMany - 1 - i, 1), other, tag));
      pending.push_back(world.all().start_send<std::int64_t>(
          std::span<const std::int64_t>(sent).subspan(i, 1), other, tag));
    }
    for (Pending& one : pending) {
      one.wait();
    }
    require(std::ranges::all_of(values, [](std::int64_t x) { return x == 2; }), "sums");
    require(std::ranges::all_of(got, [](std::int64_t x) { return x == 3; }), "messages");
  });
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// The processor time that this many calls take when all of them are started before the first is waited for.
double time_of_calls(World& world, std::size_t calls) {
  const double begin = processor_seconds();
  std::vector<std::int64_t> values(calls, 1);
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < calls; ++i) {
    pending.push_back(world.all().start(allreduce<std::int64_t>(std::span(values).subspan(i, 1))));
  }
  for (Pending& one : pending) {
    one.wait();
  }
  require(std::ranges::all_of(values, [](std::int64_t x) { return x == 3; }), "sums");
  return processor_seconds() - begin;
}

// Four times as many calls take about four times as long; if each looked through all others, it would be sixteen.
// Processor time, because other programs may be running.
TEST_P(Started, ManyCallsOfThreeRanksTakeLinearTime) {
  constexpr std::size_t kFew = comm::kSanitized ? 250 : 5000;
  constexpr double kAtMost = 10;
  constexpr double kUnmeasurable = 0.2;
  run_ranks(GetParam(), 3, [](World& world) {
    const double few = time_of_calls(world, kFew);
    const double many = time_of_calls(world, 4 * kFew);
    require(many < kAtMost * few + kUnmeasurable,
            fmt::format("{:.2f} s, then {:.2f} s", few, many));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Started, testing::ValuesIn(test::transports()), test::transport_name);

}  // namespace
}  // namespace trireme
