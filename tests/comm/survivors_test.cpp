// Who survives a failure, and who is blamed for it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/hosts.h"
#include "comm/netns.h"
#include "comm/run_ranks.h"
#include "comm/timed.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::fault_of;
using test::Hosts;
using test::Network;
using test::require;
using test::run_ranks;
using test::sleep_for;

class Survivors : public testing::TestWithParam<TransportKind> {};

/// A rank that was declared dead and wakes later may not write into others' memory, nor continue by itself. The others
/// have finished everything, or are still running, when it wakes.
class AbandonedRank : public testing::TestWithParam<TransportKind> {
 protected:
  static constexpr Rank kRanks = 3;

  /// `others` runs after the survivors shrank; `wake` resumes the stopped rank.
  static void stop_last_rank(
      const std::function<void(Group& rest, const std::function<void()>& wake)>& others) {
    run_ranks(GetParam(), kRanks,
              [&](World& world) {
                std::vector<std::int64_t> pids(kRanks);
                const std::vector<std::int64_t> mine{getpid()};
                world.all().run(allgather<std::int64_t>(mine, pids));
                const auto run = [&] {
                  std::vector<float> data(100000, 1.0F);
                  world.all().run(allreduce<float>(std::span(data)));
                };
                if (world.rank() == kRanks - 1) {
                  raise(SIGSTOP);
                  const auto fault = fault_of(run);
                  require(fault == CommFault::Stopped || fault == CommFault::Died,
                          "the stopped rank was not notified");
                  require(fault_of([&] { (void)world.all().shrink(); }) == CommFault::Stopped,
                          "the stopped rank created its own group");
                  return;
                }
                require(fault_of(run) == CommFault::Stopped,
                        "the others did not detect the stopped rank");
                Group rest = world.all().shrink();
                require(rest.size() == kRanks - 1, "the others did not continue");
                others(rest, [&] { kill(static_cast<pid_t>(pids[kRanks - 1]), SIGCONT); });
              },
              {.deadline = {0.3}});
  }
};

TEST_P(AbandonedRank, DoesNotContinueAloneAfterWaking) {
  stop_last_rank([](Group& rest, const std::function<void()>& wake) {
    if (rest.rank() == 0) {
      wake();
    }
    sleep_for(0.5);
    rest.barrier();
  });
}

TEST_P(AbandonedRank, DoesNotContinueAloneWhenAllOthersHaveLeft) {
  stop_last_rank([](Group& rest, const std::function<void()>& wake) {
    if (rest.rank() == 0 && fork() == 0) {  // outlives all ranks that know of it
      sleep_for(0.5);
      wake();
      _exit(0);
    }
  });
}

/// Rank 2 stops in the middle of a long message to rank 0: nothing more of it arrives, and nobody waits for the rest.
/// Counts the ranks that continue.
void stop_in_a_long_message(World& world, std::atomic<int>& recovered) {
  constexpr std::size_t kLong = std::size_t{64} << 20;
  std::vector<std::uint8_t> data(kLong);
  std::vector<std::int64_t> pids(3);
  const std::vector<std::int64_t> mine{getpid()};
  world.all().run(allgather<std::int64_t>(mine, pids));
  if (world.rank() == 2) {
    const Pending sending = world.all().start_send<std::uint8_t>(data, 0);
    sleep_for(0.005);
    raise(SIGSTOP);  // for good
  }
  const CommFault fault = fault_of([&] {
    if (world.rank() == 0) {
      world.all().receive<std::uint8_t>(data, 2);
    }
    world.all().barrier();
  });
  require(fault == CommFault::Stopped, "the others know");
  const auto begin = std::chrono::steady_clock::now();
  Group rest = world.all().shrink();
  require(rest.size() == 2, "they continue");
  rest.barrier();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  require(took.count() < 6, fmt::format("shrink took {} s", took.count()));
  ++recovered;
  rest.barrier();
  kill(static_cast<pid_t>(pids[2]), SIGKILL);
}

void expect_two_continue(const WorldOptions& options) {
  for (int run = 0; run < 3; ++run) {
    const test::Shared<std::atomic<int>> recovered;
    launch(
        3, [&](World& world) { stop_in_a_long_message(world, *recovered); }, options);
    EXPECT_EQ(*recovered, 2);
  }
}

TEST_P(AbandonedRank, MidMessageDoesNotBlockOthers) {
  expect_two_continue({.deadline = {0.3}, .transport = GetParam()});
}

TEST(AbandonedRankOverTls, MidMessageDoesNotBlockOthers) {
  expect_two_continue({.deadline = {0.3}, .transport = TransportKind::Tcp, .encrypt = true});
}

TEST_F(Hosts, AbandonedRankMidMessageDoesNotBlockOthers) {
  const Network network;
  for (int run = 0; run < 3; ++run) {
    const test::Shared<std::atomic<int>> recovered;
    const bool all_ended_well = test::run_on_hosts(
        {.network = network,
         .placement = {0, 0, 1},
         .body = [&](World& world) { stop_in_a_long_message(world, *recovered); },
         .options = {.deadline = {0.3}}});
    EXPECT_FALSE(all_ended_well) << "rank 2 was not killed";
    EXPECT_EQ(*recovered, 2);
  }
}

std::string process_transport_name(const testing::TestParamInfo<TransportKind>& param) {
  return std::string(to_text(param.param));
}
INSTANTIATE_TEST_SUITE_P(Processes, AbandonedRank, testing::ValuesIn(test::process_transports()),
                         process_transport_name);

TEST(Groups, WakingRankDoesNotWriteToPeerMemory) {
  run_ranks(TransportKind::SharedMemory, 3,
            [](World& world) {
              SharedSpan<float> data = world.allocate<float>(100000);
              world.all().run(allreduce<float>(data.span()));
              std::vector<std::int64_t> pids(3);
              const std::vector<std::int64_t> mine{getpid()};
              world.all().run(allgather<std::int64_t>(mine, pids));
              if (world.rank() == 2) {
                raise(SIGSTOP);
                require(fault_of([&] { world.all().run(allreduce<float>(data.span())); }) ==
                            CommFault::Stopped,
                        "the stopped rank was not notified");
                return;
              }
              require(fault_of([&] { world.all().run(allreduce<float>(data.span())); }) ==
                          CommFault::Stopped,
                      "the others did not detect the stopped rank");
              Group rest = world.all().shrink();
              std::ranges::fill(data.span(), 3.0F);
              rest.barrier();
              if (world.rank() == 0) {
                kill(static_cast<pid_t>(pids[2]), SIGCONT);
              }
              sleep_for(0.3);
              require(std::ranges::all_of(data.span(), [](float x) { return x == 3.0F; }),
                      "the stopped rank wrote to another rank's memory");
            },
            {.deadline = {0.2}});
}

// A user's reduction that throws.

TEST_P(Survivors, ThrowingReductionBlamesItsOwnRank) {
  for (const Method method : {Method{}, Method::scheduled(Algorithm::Ring)}) {
    for (const Order order : {Order::Any, Order::Fixed}) {
      run_ranks(GetParam(), 3, [&](World& world) {
        const UserReduction user{"picky", [&](const void*, void*, std::int64_t) {
                                   if (world.rank() == 1) {
                                     throw std::runtime_error("I do not like these numbers");
                                   }
                                 }};
        std::vector<std::int64_t> data(30000, 1);
        const CallOptions options{.user = &user, .order = order, .method = method};
        try {
          world.all().run(allreduce<std::int64_t>(std::span(data), options));
          world.all().barrier();
          require(false, "no rank detected it");
        } catch (const CommError& error) {
          require(world.rank() != 1, "rank 1 did not get its own exception");
          require(error.culprits() == std::vector<Rank>{1},
                  fmt::format("blames: {}", error.what()));
          require(std::string(error.what()).find("picky") != std::string::npos, error.what());
        } catch (const std::runtime_error& error) {
          require(world.rank() == 1, error.what());
          require(std::string(error.what()) == "I do not like these numbers", error.what());
        }
        Group rest = world.all().shrink();
        require(rest.size() == 3, "a rank was excluded");
        rest.barrier();
      });
    }
  }
}

/// One rank calls shrink() on a working group: the others learn of it at once.
TEST_P(Survivors, ShrinkingLiveGroupFailsOnAllMembers) {
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(GetParam(), 3,
            [](World& world) {
              if (world.rank() != 0) {
                (void)fault_of([&] { world.all().barrier(); });
              }
              Group rest = world.all().shrink();
              require(rest.size() == 3, "not all ranks are left");
              rest.barrier();
            },
            {.deadline = {5.0}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100));
}

/// Rank 2 is too late; the others wait for one another, and must not be blamed.
TEST_P(Survivors, BlamesLateRankNotItsWaiters) {
  const Method method =
      test::is_network(GetParam()) ? Method::scheduled(Algorithm::Ring) : Method{};
  test::run_ranks_with({0.1, 0.4, 2}, GetParam(), 4, [&](World& world, double deadline) {
    std::vector<std::int64_t> data(1000, 1);
    if (world.rank() == 2) {
      sleep_for(33 * deadline);
      (void)fault_of([&] { world.all().barrier(); });
      return;
    }
    try {
      world.all().run(allreduce<std::int64_t>(std::span(data), {.method = method}));
      require(false, "no rank detected it");
    } catch (const CommError& error) {
      require(error.fault() == CommFault::Late, error.what());
      require(error.culprits() == std::vector<Rank>{2}, error.what());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Survivors, testing::ValuesIn(test::transports()),
                         test::transport_name);

}  // namespace
}  // namespace trireme
