// Groups, messages and started calls, including regressions.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "comm/timed.h"
#include "trireme/comm.h"

namespace trireme {
namespace {

using test::fault_of;
using test::require;
using test::run_ranks;
using test::sleep_for;

std::int64_t sum_over(Group& group, std::int64_t value) {
  std::vector<std::int64_t> data{value};
  group.run(allreduce<std::int64_t>(data));
  return data[0];
}

class OnEveryTransport : public testing::TestWithParam<TransportKind> {};

// 8 = 2 x 4, and its transpose.
TEST_P(OnEveryTransport, SplitMakesRowsAndColumns) {
  run_ranks(GetParam(), 8, [](World& world) {
    const Rank r = world.rank();
    Group row = world.all().split(r / 4, r);
    Group column = world.all().split(r % 4, -r);  // in reverse order
    require(row.size() == 4 && row.rank() == r % 4, "row");
    require(column.size() == 2 && column.rank() == 1 - r / 4, "column");
    require(sum_over(row, r) == (r < 4 ? 6 : 22), "wrong sum over the row");
    require(sum_over(column, r) == 2 * (r % 4) + 4, "wrong sum over the column");
    const Group& again = row;
    require(sum_over(row, 1) == again.size(), "a copy is not the same group");
  });
}

TEST_P(OnEveryTransport, OnlyMembersCallSubset) {
  run_ranks(GetParam(), 5, [](World& world) {
    for (int turn = 0; turn < 20; ++turn) {
      const Rank r = world.rank();
      if (r == 4) {
        break;
      }
      Group pair =
          world.all().subset(r % 2 == 0 ? std::vector<Rank>{2, 0} : std::vector<Rank>{1, 3});
      require(sum_over(pair, r) == (r % 2 == 0 ? 2 : 4), "wrong sum over the pair");
    }
  });
}

/// Groups of one rank are created and destroyed during a split, whose messages stay separate.
TEST_P(OnEveryTransport, SubsetDoesNotDisturbEarlierSplit) {
  run_ranks(GetParam(), 2, [](World& world) {
    Group halves = world.all().split(0, world.rank());
    if (world.rank() == 0) {
      Group alone = world.all().subset({0});
      alone.barrier();
    }
    for (int call = 0; call < 3; ++call) {
      require(sum_over(halves, world.rank()) == 1, "wrong sum over the split");
    }
  });
}

TEST_P(OnEveryTransport, MessagesMatchTheirReceives) {
  run_ranks(GetParam(), 4, [](World& world) {
    Group& all = world.all();
    const Rank r = all.rank();
    std::vector<std::int32_t> out(100000, r);
    std::vector<std::int32_t> in(100000);
    // All ranks send before any receives; tags in another order than sent.
    const Rank right = (r + 1) % 4;
    const Rank left = (r + 3) % 4;
    Pending first = all.start_send<std::int32_t>(out, right, 1);
    std::vector<std::int32_t> other(10, 100 + r);
    Pending second = all.start_send<std::int32_t>(other, right, 2);
    std::vector<std::int32_t> got(10);
    all.receive<std::int32_t>(got, left, 2);
    all.receive<std::int32_t>(in, left, 1);
    first.wait();
    second.wait();
    require(got[9] == 100 + left && in[99999] == left, "wrong data received");
    for (std::int32_t i = 0; i < 100; ++i) {  // those with the same tag stay in order
      const std::vector<std::int32_t> number{i};
      if (r == 0) {
        all.send<std::int32_t>(number, 3, 7);
      } else if (r == 3) {
        std::vector<std::int32_t> came(1);
        all.receive<std::int32_t>(came, 0, 7);
        require(came[0] == i, "order");
      }
    }
  });
}

// Started calls proceed in the background, in order, on several groups at once.
TEST_P(OnEveryTransport, StartedCallsFinishInOrder) {
  run_ranks(GetParam(), 4, [](World& world) {
    Group odd_even = world.all().split(world.rank() % 2);
    std::vector<std::vector<std::int64_t>> data(20);
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i].assign(i * 3000 + 1, world.rank() + static_cast<std::int64_t>(i));
      Group& group = i % 3 == 0 ? odd_even : world.all();
      pending.push_back(group.start(allreduce<std::int64_t>(std::span(data[i]))));
    }
    require(sum_over(world.all(), 1) == 4, "a blocking call did not wait its turn");
    for (std::size_t i = 0; i < data.size(); ++i) {
      pending[i].wait();
      const auto n = static_cast<std::int64_t>(i);
      const std::int64_t expected = i % 3 == 0 ? 2 + 2 * (world.rank() % 2) + 2 * n : 6 + 4 * n;
      require(std::ranges::all_of(data[i], [&](std::int64_t x) { return x == expected; }),
              fmt::format("result {}", i));
    }
  });
}

TEST_P(OnEveryTransport, FixedOrderIsBitIdenticalForEveryMethod) {
  run_ranks(GetParam(), 5, [](World& world) {
    std::vector<float> mine(1001);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = 1.0F / static_cast<float>(1 + i * 7 + static_cast<std::size_t>(world.rank()) * 13);
    }
    std::vector<float> first;
    for (const char* method : {"automatic", "ring", "recursive-doubling", "mst"}) {
      std::vector<float> result(mine.size());
      world.all().run(
          allreduce<float>(mine, result, {.order = Order::Fixed, .method = parse_method(method)}));
      first = first.empty() ? result : first;
      require(first == result, method);
      std::vector<float> whole(mine.size() * 5);
      world.all().run(allgather<float>(result, whole));
      require(std::ranges::equal(std::span(whole).first(1001), std::span(whole).last(1001)),
              "the ranks' results differ");
    }
  });
}

TEST_P(OnEveryTransport, AllReductionKinds) {
  run_ranks(GetParam(), 3, [](World& world) {
    const auto result = [&](Reduction reduction, const char* method) {
      std::vector<std::int32_t> data{world.rank() + 2};
      world.all().run(allreduce<std::int32_t>(
          std::span(data), {.reduction = reduction, .method = parse_method(method)}));
      return data[0];
    };
    for (const char* method : {"automatic", "ring", "mst"}) {
      require(result(Reduction::Sum, method) == 9, "sum");
      require(result(Reduction::Product, method) == 24, "product");
      require(result(Reduction::Min, method) == 2, "min");
      require(result(Reduction::Max, method) == 4, "max");
      require(result(Reduction::Average, method) == 3, "average");
      require(result(Reduction::BitAnd, method) == 0, "and");
      require(result(Reduction::BitOr, method) == 7, "or");
      require(result(Reduction::BitXor, method) == 5, "xor");
    }
    const UserReduction longest{"longest", [](const void* from, void* into, std::int64_t count) {
                                  const auto* a = static_cast<const std::int64_t*>(from);
                                  auto* b = static_cast<std::int64_t*>(into);
                                  for (std::int64_t i = 0; i < count; ++i) {
                                    b[i] = std::max(a[i], b[i]);
                                  }
                                }};
    std::vector<std::int64_t> data(5000, world.rank());
    world.all().run(allreduce<std::int64_t>(std::span(data), {.user = &longest}));
    require(data[4999] == 2, "wrong result of the user reduction");
  });
}

// bf16 and f16 are summed in f32: 256 + 1 + 1 is 258 in f32 and bf16, but 256 + 1 is 256 in bf16.
TEST_P(OnEveryTransport, HalfTypesAccumulateInF32) {
  run_ranks(GetParam(), 3, [](World& world) {
    for (const char* method : {"automatic", "ring", "mst"}) {
      std::vector<BFloat16> data{to_bf16(world.rank() == 0 ? 256.0F : 1.0F)};
      world.all().run(allreduce<BFloat16>(std::span(data), {.method = parse_method(method)}));
      require(to_f32(data[0]) == 258.0F, method);
    }
  });
}

TEST_P(OnEveryTransport, InvalidCallIsReportedToPeers) {
  run_ranks(GetParam(), 2, [](World& world) {
    std::vector<float> data(10);
    if (world.rank() == 0) {
      try {
        world.all().run(broadcast<float>(data, 7));
        require(false, "root 7 was accepted");
      } catch (const CommError&) {
        require(false, "expected this rank's own error");
      } catch (const Error& error) {
        require(error.kind() == ErrorKind::Usage, "usage");
      }
    } else {
      require(fault_of([&] { world.all().run(broadcast<float>(data, 0)); }) == CommFault::Mismatch,
              "the other rank was not notified");
    }
    Group again = world.all().shrink();
    require(sum_over(again, 1) == 2, "the survivors did not continue");
  });
}

// A rank that only gives does not wait for those that take, but is never more than two calls ahead.
TEST_P(OnEveryTransport, SmallSendsDoNotBlock) {
  run_ranks(GetParam(), 3, [](World& world) {
    using Clock = std::chrono::steady_clock;
    Group& all = world.all();
    std::vector<std::int32_t> data(4, world.rank());
    std::vector<std::int32_t> gathered(12);
    all.barrier();
    const auto begin = Clock::now();
    if (world.rank() == 1) {
      sleep_for(0.3);
    }
    all.run(broadcast<std::int32_t>(data, 0));
    const std::chrono::duration<double> took = Clock::now() - begin;
    require(data[3] == 0, "broadcast");
    require(world.rank() == 1 || took.count() < 0.25, "waited for rank 1");
    data.assign(4, world.rank());
    all.run(gather<std::int32_t>(data, gathered, 2));
    if (world.rank() == 2) {
      require(gathered[0] == 0 && gathered[4] == 1 && gathered[8] == 2, "gather");
    }
    all.barrier();
  });
}

// Consecutive calls with a root, by ranks that are alternately early and late: each receives the data of that call,
// however far ahead the sender is.
TEST_P(OnEveryTransport, EarlyReturnsDoNotMixCalls) {
  run_ranks(GetParam(), 4, [](World& world) {
    Group& all = world.all();
    const Rank me = world.rank();
    for (int i = 0; i < 600; ++i) {
      const Rank root = (i * 7 / 3) % 4;
      if (i % 11 == me * 2) {
        sleep_for(0.0005);
      }
      // Inline on the stamp's cache line, and in the memory after it.
      const std::size_t count = i % 3 == 0 ? 2 : 150;
      std::vector<std::int32_t> mine(count, i * 10 + me);
      std::vector<std::int32_t> whole(4 * count);
      const std::string what = fmt::format("call {} of rank {}", i, me);
      switch (i % 5) {
        case 0:
          all.run(broadcast<std::int32_t>(mine, root));
          require(std::ranges::count(mine, i * 10 + root) == std::ssize(mine), what);
          break;
        case 1:
          all.run(gather<std::int32_t>(mine, whole, root));
          for (Rank r = 0; r < 4 && me == root; ++r) {
            require(whole[(r + 1) * count - 1] == i * 10 + r, what);
          }
          break;
        case 2:
          for (std::size_t k = 0; k < whole.size(); ++k) {
            whole[k] = i * 1000 + static_cast<std::int32_t>(k / count);
          }
          all.run(scatter<std::int32_t>(whole, mine, root));
          require(std::ranges::count(mine, i * 1000 + me) == std::ssize(mine), what);
          break;
        case 3:
          all.run(reduce<std::int32_t>(mine, mine, root));
          require(me != root || mine.back() == 40 * i + 6, what);
          break;
        default:
          if (i % 15 == 4) {
            all.run(allreduce<std::int32_t>(mine));
            require(mine.back() == 40 * i + 6, what);
          }
      }
    }
  });
}

// A live rank that does not join: 30 deadlines, heartbeats or not.
TEST_P(OnEveryTransport, LateRankIsReported) {
  test::run_ranks_with({0.05, 0.2, 1.5}, GetParam(), 2, [](World& world, double deadline) {
    if (world.rank() == 1) {
      sleep_for(50 * deadline);
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    require(fault_of([&] { world.all().barrier(); }) == CommFault::Late, "late");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    require(took.count() > 28 * deadline && took.count() < 48 * deadline,
            fmt::format("after {}", took.count()));
  });
}

// A lane that has been idle for long gives its next call the full time.
TEST_P(OnEveryTransport, IdleTimeDoesNotCountAsWaiting) {
  test::run_ranks_with({0.02, 0.2, 1.5}, GetParam(), 2, [](World& world, double deadline) {
    std::vector<float> data(10);
    world.all().start(allreduce<float>(std::span(data))).wait();
    sleep_for((world.rank() == 0 ? 40 : 50) * deadline);
    world.all().start(allreduce<float>(std::span(data))).wait();
  });
}

// Messages arrive even if their sender left long ago.
TEST_P(OnEveryTransport, DataArrivesAfterSenderLeft) {
  WorldOptions options{.deadline = {0.3}};
  run_ranks(
      GetParam(), 2,
      [](World& world) {
        std::vector<std::int32_t> data(100000, world.rank());
        if (world.rank() == 0) {
          Pending sent = world.all().start_send<std::int32_t>(data, 1);
          sent.wait();
        } else {
          sleep_for(1.0);
          world.all().receive<std::int32_t>(data, 0);
          require(data[99999] == 0, "wrong data received");
        }
      },
      options);
}

TEST(Groups, SingleRankWorksWithoutSharedMemory) {
  for (const TransportKind kind : test::networks()) {
    run_ranks(kind, 2, [](World& world) {
      Group alone = world.all().subset({world.rank()});
      require(sum_over(alone, 5) == 5, "sum");
      std::vector<std::int64_t> data{7};
      alone.run(allreduce<std::int64_t>(std::span(data), {.method = Method::direct()}));
      require(data[0] == 7, "direct");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnEveryTransport, testing::ValuesIn(test::transports()),
                         test::transport_name);

}  // namespace
}  // namespace trireme
