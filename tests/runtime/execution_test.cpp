// A program with every exchange, on devices that share the host's memory and on those that do not.
#include "trireme/execution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/isolated_device.h"
#include "trireme/comm.h"
#include "trireme/communicator.h"
#include "trireme/cpu_device.h"
#include "trireme/op.h"
#include "trireme/program.h"

namespace trireme {
namespace {

constexpr Rank kRanks = 2;
constexpr int kSteps = 4;
constexpr int kExchanges = 6;

/// Exchanges with blocks that are and are not contiguous, of unequal length, that overlap with kernels. A step changes
/// the parameter.
Program program_of(Rank rank) {
  const std::string mine = fmt::format("group=\"data\" ranks=2 index={}", rank);
  const int columns = rank == 0 ? 2 : 1;  // of three
  return make_program(parse_graph(fmt::format(
      R"(graph g {{
  input %x: f32[4,3]
  parameter %w: f32[3,3]
  %a: f32[4,3] = einsum(%x, %w) equation="ik,kj->ij"
  %sum: f32[4,3] = all_reduce(%a) group="data" ranks=2
  %sent: u8[0] = send(%x) to={other} tag={to}
  %got: f32[4,3] = receive() from={other} tag={from} shape=[4,3]
  %b: f32[4,3] = multiply(%x, %x)
  %part: f32[4,{columns}], %s0: u8[48] = reduce_scatter(%b) {mine} dimension=1
  %c: f32[4,3] = add(%sum, %got)
  %whole: f32[4,3], %s1: u8[48] = all_gather(%part) {mine} dimension=1 size=3
  %rows: f32[8,{columns}], %s2: u8[{scratch}] = all_to_all(%c) {mine} from=0 to=1 size=8
  %d: f32[4,3] = add(%whole, %c)
  %e: f32[3,3] = einsum(%x, %d) equation="ki,kj->ij"
  %new: f32[3,3] = scale(%e) factor=0.01
  %loss: f32[] = reduce_sum(%rows) axes=[0,1]
  output loss = %loss
  output rows = %rows
  update %w <- %new
}})",
      fmt::arg("other", 1 - rank), fmt::arg("to", 5 + rank), fmt::arg("from", 6 - rank),
      fmt::arg("columns", columns), fmt::arg("mine", mine),
      fmt::arg("scratch", 48 + 32 * columns))));
}

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = first;
    first += 0.25F;
  }
  return values;
}

void write(Execution& execution, const char* name, const std::vector<float>& values) {
  execution.write(name, std::as_bytes(std::span(values)));
}

struct Results {
  std::vector<double> losses{};
  std::vector<float> rows{};
  std::vector<float> w{};
  bool operator==(const Results&) const = default;
};

using MakeDevice = std::function<std::unique_ptr<Device>(Rank)>;

struct RunOptionsOfTest {
  MakeDevice make{};
  bool overlap = true;
  std::function<void(Execution&, Rank, int step)> run = [](Execution& execution, Rank, int) {
    execution.run();
  };
};

/// By rank.
std::vector<Results> results_of(const RunOptionsOfTest& options) {
  std::vector<Results> results(kRanks);
  run_threads(kRanks, [&](World& world) {
    Communicator communicator(world, Mesh({{"data", kRanks}}));
    const auto device = options.make(world.rank());
    Execution execution(program_of(world.rank()), *device, &communicator);
    execution.set_overlap(options.overlap);
    Results& mine = results[static_cast<std::size_t>(world.rank())];
    const auto offset = static_cast<float>(world.rank());
    write(execution, "w", numbers(9, -1));
    for (int step = 0; step < kSteps; ++step) {
      std::vector<float> x = numbers(12, offset + 1);
      write(execution, "x", x);
      std::ranges::fill(x, 1e9F);  // the execution must not need it any more
      if (step == 2) {             // written again before it is used
        write(execution, "x", numbers(12, 2));
      }
      options.run(execution, world.rank(), step);
      mine.losses.push_back(execution.number("loss"));
    }
    mine.rows.resize(world.rank() == 0 ? 16 : 8);
    mine.w.resize(9);
    execution.read("rows", std::as_writable_bytes(std::span(mine.rows)));
    execution.read("w", std::as_writable_bytes(std::span(mine.w)));
  });
  return results;
}

std::unique_ptr<Device> cpu(Rank) {
  return make_cpu_device({.threads = 1, .pinned = false});
}

TEST(Execution, IsolatedDevicesMatchCpu) {
  const std::vector<Results> expected = results_of({.make = cpu});
  EXPECT_NE(expected[0].losses[0], expected[0].losses[3]);
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    const MakeDevice isolated = [&](Rank rank) {
      return make_isolated_device(
          {.seed = 10 * seed + static_cast<std::uint64_t>(rank), .longest_delay = {2e-3}});
    };
    EXPECT_EQ(results_of({.make = isolated}), expected) << "seed " << seed;
    EXPECT_EQ(results_of({.make = isolated, .overlap = false}), expected) << "seed " << seed;
  }
}

/// The default of Device, whose memory is elsewhere, on ranks of both kinds.
TEST(Execution, RanksMayHaveDifferentDevices) {
  const MakeDevice mixed = [](Rank rank) { return rank == 0 ? cpu(0) : make_isolated_device(); };
  EXPECT_EQ(results_of({.make = mixed}), results_of({.make = cpu}));
}

TEST(Execution, CheckedStepsMatchUncheckedSteps) {
  const MakeDevice isolated = [](Rank) { return make_isolated_device(); };
  const auto checked = [](Execution& execution, Rank, int) {
    EXPECT_FALSE(execution.run_checked().has_value());
  };
  EXPECT_EQ(results_of({.make = isolated, .run = checked}), results_of({.make = cpu}));
}

/// The number of spans on tracks whose name begins so.
std::ptrdiff_t spans_on(const Trace& trace, std::string_view track) {
  return std::ranges::count_if(trace.spans, [&](const Trace::Span& span) {
    return trace.tracks[static_cast<std::size_t>(span.track.index)].thread.starts_with(track);
  });
}

/// The largest sum of the memory counters, which change one at a time.
std::int64_t peak_in(const Trace& trace) {
  std::map<std::string, double> now;
  double time = -1;
  double peak = 0;
  const auto sum = [&] {
    return std::accumulate(now.begin(), now.end(), 0.0,
                           [](double all, const auto& one) { return all + one.second; });
  };
  for (const Trace::Counter& counter : trace.counters) {
    peak = counter.time.count > time ? std::max(peak, sum()) : peak;
    time = counter.time.count;
    now[counter.name] = counter.value;
  }
  return static_cast<std::int64_t>(std::max(peak, sum()));
}

std::ptrdiff_t kernels_of(const Program& program) {
  return std::ranges::count_if(program.instructions, [](const Instruction& instruction) {
    return !instruction.op->is_view && !instruction.op->communicates;
  });
}

/// Traced steps compute the same, and their spans come from events: a step waits for the device only at its end.
TEST(Execution, TracesComeFromEvents) {
  for (const bool on_isolated : {false, true}) {
    const std::array counts{std::make_shared<IsolatedCounts>(), std::make_shared<IsolatedCounts>()};
    const auto traced = [&](Execution& execution, Rank rank, int step) {
      const auto& synchronizations = counts.at(static_cast<std::size_t>(rank))->synchronizations;
      Trace trace;
      const int before = synchronizations;
      execution.run(step % 2 == 0 ? &trace : nullptr);
      EXPECT_EQ(synchronizations - before, on_isolated ? 1 : 0);
      if (step % 2 == 0) {
        EXPECT_EQ(problems(trace), std::vector<std::string>());
        EXPECT_EQ(spans_on(trace, "compute"), kernels_of(execution.program()));
        EXPECT_EQ(spans_on(trace, "waiting"), kExchanges);
        EXPECT_EQ(spans_on(trace, "exchanges"), kExchanges);
        EXPECT_EQ(peak_in(trace), memory_use(execution.program()).peak.count);
      }
    };
    const MakeDevice make = [&](Rank rank) {
      return on_isolated
                 ? make_isolated_device({.counts = counts.at(static_cast<std::size_t>(rank))})
                 : cpu(rank);
    };
    EXPECT_EQ(results_of({.make = make, .run = traced}), results_of({.make = cpu}));
  }
}

/// From the second step on, kernels between exchanges are enqueued as a whole, and nothing is allocated on the host.
TEST(Execution, LaterStepsReplayRecordings) {
  const auto counts = std::make_shared<IsolatedCounts>();
  std::vector<int> launches;
  std::vector<int> replays;
  std::vector<int> allocations;
  const auto counted = [&](Execution& execution, Rank rank, int) {
    const int launched = counts->launches;
    const int replayed = counts->replays;
    execution.run();
    if (rank == 0) {
      launches.push_back(counts->launches - launched);
      replays.push_back(counts->replays - replayed);
      allocations.push_back(counts->host_allocations);
    }
  };
  const MakeDevice one = [&](Rank rank) {
    return rank == 0 ? make_isolated_device({.counts = counts}) : cpu(rank);
  };
  EXPECT_EQ(results_of({.make = one, .run = counted}), results_of({.make = cpu}));
  EXPECT_EQ(replays.at(0), 0);
  EXPECT_GT(replays.at(1), 0);
  EXPECT_EQ(replays.at(2), replays.at(1));
  EXPECT_LT(launches.at(1), launches.at(0));
  EXPECT_EQ(launches.at(3), launches.at(1));
  EXPECT_EQ(allocations.at(3), allocations.at(0));
}

TEST(Execution, UnrecordableKernelsAreEnqueuedIndividually) {
  const auto counts = std::make_shared<IsolatedCounts>();
  const MakeDevice make = [&](Rank) {
    return make_isolated_device({.cannot_record = true, .counts = counts});
  };
  EXPECT_EQ(results_of({.make = make}), results_of({.make = cpu}));
  EXPECT_GT(counts->launches, 0);
  EXPECT_EQ(counts->replays, 0);
}

/// A rank that ends leaves the others with an error, not with a stream that waits.
TEST(Execution, FailedRankAbortsStep) {
  const MakeDevice isolated = [](Rank) { return make_isolated_device(); };
  const auto leaves = [](Execution& execution, Rank rank, int step) {
    if (step == 1 && rank == 1) {
      throw std::runtime_error("this rank has had enough");
    }
    execution.run();
  };
  EXPECT_THROW(results_of({.make = isolated, .run = leaves}), std::runtime_error);
}

TEST(Execution, NumbersReturnScalarOutputs) {
  const auto device = make_isolated_device();
  Execution execution(make_program(parse_graph(R"(graph g {
  input %x: f32[3]
  %sum: f32[] = reduce_sum(%x) axes=[0]
  output sum = %sum
  output x = %x
})")),
                      *device);
  write(execution, "x", numbers(3, 1));
  execution.run();
  EXPECT_EQ(execution.number("sum"), 3.75);
  EXPECT_THROW((void)execution.number("x"), Error);
  EXPECT_THROW((void)execution.number("nothing"), Error);
}

class WrittenAhead : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static std::unique_ptr<Device> device(std::uint64_t seed) {
    return GetParam() ? make_isolated_device({.seed = seed}) : cpu(0);
  }
  [[nodiscard]] static Program sum_of_cubes() {
    return make_program(parse_graph(R"(graph g {
  input %x: f32[3]
  %y: f32[3] = multiply(%x, %x)
  %z: f32[3] = multiply(%x, %y)
  %sum: f32[] = reduce_sum(%z) axes=[0]
  output sum = %sum
})"));
  }
  [[nodiscard]] static double cubes(float first) {
    return std::pow(first, 3.0) + std::pow(first + 0.25, 3.0) + std::pow(first + 0.5, 3.0);
  }
};

TEST_P(WrittenAhead, EachStepHasItsOwnInput) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto device = WrittenAhead::device(seed);
    Execution execution(sum_of_cubes(), *device);
    write(execution, "x", numbers(3, 0));
    for (int step = 0; step < 20; ++step) {
      std::vector<float> next = numbers(3, static_cast<float>(step + 1));
      execution.run(nullptr, [&] {
        execution.write_ahead("x", std::as_bytes(std::span(next)));
        std::ranges::fill(next, -1.0F);  // the caller may reuse it
      });
      ASSERT_EQ(execution.number("sum"), cubes(static_cast<float>(step))) << "step " << step;
    }
  }
}

TEST_P(WrittenAhead, LaterWriteReplacesIt) {
  const auto device = WrittenAhead::device(1);
  Execution execution(sum_of_cubes(), *device);
  write(execution, "x", numbers(3, 1));
  const std::vector<float> ahead = numbers(3, 2);
  execution.run(nullptr, [&] { execution.write_ahead("x", std::as_bytes(std::span(ahead))); });
  write(execution, "x", numbers(3, 3));
  execution.run();
  EXPECT_EQ(execution.number("sum"), cubes(3));
  execution.run();
  EXPECT_EQ(execution.number("sum"), cubes(3));
}

INSTANTIATE_TEST_SUITE_P(Devices, WrittenAhead, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "isolated" : "cpu"; });

}  // namespace
}  // namespace trireme
