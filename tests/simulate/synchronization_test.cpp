#include "trireme/synchronization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/collective_cost.h"

namespace trireme::simulate {
namespace {

double harmonic(int n) {
  double sum = 0;
  for (int k = 1; k <= n; ++k) {
    sum += 1.0 / k;
  }
  return sum;
}

/// Options that differ in everything that matters.
std::vector<StrategyOptions> various_options() {
  std::vector<StrategyOptions> all;
  for (const Jitter jitter : {Jitter::None, Jitter::Uniform, Jitter::Exponential}) {
    for (const int workers : {1, 2, 5, 8, 13}) {
      for (const int slow : {0, 1}) {
        all.push_back({.workers = workers,
                       .compute = {0.3},
                       .variation = {.jitter = jitter,
                                     .slow_workers = slow,
                                     .transient_chance = workers == 5 ? 0.1 : 0,
                                     .seed = static_cast<std::uint64_t>(workers)},
                       .alpha = {0.01},
                       .transfer = {0.1},
                       .steps = 50,
                       .keep_iterations = true});
      }
    }
  }
  return all;
}

TEST(Ssp, MatchesPublishedFigure) {
  std::array<std::int64_t, 3> completed{0, 4, 3};  // A, B, C
  EXPECT_TRUE(may_start(completed, 0, 3));
  EXPECT_FALSE(may_start(completed, 1, 3));
  EXPECT_TRUE(may_start(completed, 2, 3));
  completed[0] = 1;
  EXPECT_TRUE(may_start(completed, 1, 3));
}

TEST(Ssp, WithStalenessZeroIsBspExactly) {
  for (StrategyOptions options : various_options()) {
    options.staleness = 0;
    const StrategyResult ssp = simulate_strategy(Strategy::Ssp, options);
    const StrategyResult bsp = simulate_strategy(Strategy::Bsp, options);
    EXPECT_EQ(ssp.time, bsp.time);
    ASSERT_EQ(ssp.iterations.size(), bsp.iterations.size());
    std::map<std::pair<int, std::int64_t>, double> starts;
    for (const IterationTimes& each : bsp.iterations) {
      starts[{each.worker, each.iteration}] = each.start;
    }
    for (const IterationTimes& each : ssp.iterations) {
      EXPECT_EQ((starts[{each.worker, each.iteration}]), each.start);
    }
  }
}

TEST(Ssp, NeverDriftsBeyondItsStaleness) {
  for (StrategyOptions options : various_options()) {
    for (const int staleness : {0, 1, 3}) {
      options.staleness = staleness;
      EXPECT_LE(simulate_strategy(Strategy::Ssp, options).drift, staleness);
    }
  }
}

TEST(Ssp, UsesAllOfItsStalenessIfWorkerIsSlow) {
  for (const int staleness : {0, 1, 3, 7}) {
    const StrategyResult result = simulate_strategy(
        Strategy::Ssp,
        {.workers = 8, .variation = {.slow_workers = 1}, .staleness = staleness, .steps = 100});
    EXPECT_EQ(result.drift, staleness);
  }
}

/// With an unreachable bound nobody waits.
TEST(Ssp, WithLargeStalenessIsAsync) {
  for (StrategyOptions options : various_options()) {
    options.staleness = 1 << 20;
    EXPECT_EQ(simulate_strategy(Strategy::Ssp, options).time,
              simulate_strategy(Strategy::Async, options).time);
  }
}

/// Then every worker waits for the push of the slowest one, and for the server's.
TEST(Essp, WithStalenessZeroIsBsp) {
  for (StrategyOptions options : various_options()) {
    options.staleness = 0;
    const double bsp = simulate_strategy(Strategy::Bsp, options).time.count;
    EXPECT_GT(bsp, 0);
    EXPECT_NEAR(simulate_strategy(Strategy::Essp, options).time.count, bsp,
                options.alpha.count + options.transfer.count + 1e-9);
  }
}

TEST(Essp, NeverDriftsBeyondItsStaleness) {
  for (StrategyOptions options : various_options()) {
    for (const int staleness : {0, 1, 3}) {
      options.staleness = staleness;
      EXPECT_LE(simulate_strategy(Strategy::Essp, options).drift, staleness);
    }
  }
}

/// Pulls overlap, so an iteration that does not wait takes compute + α + T instead of compute + 2 (α + T).
TEST(Essp, SavesPull) {
  const StrategyOptions options{
      .workers = 4, .compute = {1}, .alpha = {0.1}, .transfer = {0.4}, .steps = 100};
  EXPECT_NEAR(simulate_strategy(Strategy::Essp, options).time.count, 150, 1e-9);
  EXPECT_NEAR(simulate_strategy(Strategy::Ssp, options).time.count, 200, 1e-9);
}

/// A worker that has used up its staleness waits for news of the slowest one: 2 s + push, and α + T until it knows.
TEST(Essp, LearnsOfSlowestWorkerLater) {
  StrategyOptions options{.workers = 2,
                          .compute_time = [](int worker, std::int64_t) { return 1.0 + worker; },
                          .alpha = {0},
                          .transfer = {0.5},
                          .staleness = 0,
                          .steps = 2,
                          .keep_iterations = true};
  const StrategyResult result = simulate_strategy(Strategy::Essp, options);
  for (const IterationTimes& each : result.iterations) {
    if (each.iteration == 1) {
      EXPECT_DOUBLE_EQ(each.start, 3);
    }
  }
}

TEST(Bsp, NoWorkerStartsBeforeAllHaveCompleted) {
  for (const StrategyOptions& options : various_options()) {
    for (const Strategy strategy : {Strategy::Bsp, Strategy::Allreduce}) {
      const StrategyResult result = simulate_strategy(strategy, options);
      std::map<std::int64_t, double> completed;
      for (const IterationTimes& each : result.iterations) {
        completed[each.iteration] = std::max(completed[each.iteration], each.completed);
      }
      for (const IterationTimes& each : result.iterations) {
        if (each.iteration > 0) {
          EXPECT_GE(each.start, completed[each.iteration - 1]);
        }
      }
      EXPECT_EQ(result.drift, 0);
    }
  }
}

/// 7 fast workers and one of half the speed.
TEST(Strategies, OneHalfSpeedWorkerHalvesBlockingStrategies) {
  const StrategyOptions options{.workers = 8, .variation = {.slow_workers = 1}, .steps = 1000};
  EXPECT_EQ(simulate_strategy(Strategy::Bsp, options).of_ideal, 0.5);
  EXPECT_EQ(simulate_strategy(Strategy::Allreduce, options).of_ideal, 0.5);
  // The bound lets the fast ones run ahead once; then they wait like the others.
  EXPECT_NEAR(simulate_strategy(Strategy::Ssp, options).of_ideal, 0.5, 0.005);
  EXPECT_NEAR(simulate_strategy(Strategy::Gossip, options).of_ideal, 0.5, 0.005);
  EXPECT_NEAR(simulate_strategy(Strategy::Async, options).of_ideal, 7.5 / 8, 0.001);
}

/// Bounded staleness absorbs stragglers that come and go.
TEST(Strategies, TransientStragglersCostSspLessThanBsp) {
  const StrategyOptions options{
      .workers = 16,
      .variation = {.transient_chance = 0.02, .transient_factor = 5, .seed = 3},
      .staleness = 8,
      .steps = 2000};
  const double bsp = simulate_strategy(Strategy::Bsp, options).throughput;
  const double ssp = simulate_strategy(Strategy::Ssp, options).throughput;
  const double async = simulate_strategy(Strategy::Async, options).throughput;
  EXPECT_GT(ssp, 1.3 * bsp);
  EXPECT_GT(async, ssp);
  // A step is slow unless no worker straggles: 1 + 4 (1 - 0.98^16) on average.
  EXPECT_NEAR(16 / bsp, 1 + 4 * (1 - std::pow(0.98, 16)), 0.1);
}

/// A step takes as long as the slowest: H_P if times are exponential with mean 1.
TEST(Bsp, StepOfExponentialTimesMatchesHarmonicNumber) {
  for (const int workers : {1, 2, 8, 64}) {
    const StrategyResult result = simulate_strategy(
        Strategy::Bsp,
        {.workers = workers, .variation = {.jitter = Jitter::Exponential}, .steps = 20000});
    // The variance of the maximum is at most π²/6; five standard errors.
    EXPECT_NEAR(result.time.count / 20000, harmonic(workers), 5 * 1.283 / std::sqrt(20000.0));
  }
}

/// Three devices are at their sixth iteration while one has sent its first only.
TEST(Async, ReachesStalenessOfFive) {
  const StrategyResult result = simulate_strategy(
      Strategy::Async,
      {.workers = 4,
       .compute_time = [](int worker, std::int64_t) { return worker == 0 ? 6.0 : 1.0; },
       .steps = 5});
  EXPECT_EQ(result.drift, 5);
  EXPECT_EQ(result.utilization, 1);
}

TEST(Async, AlwaysComputesWithoutCommunication) {
  for (StrategyOptions options : various_options()) {
    options.alpha = options.transfer = {0};
    EXPECT_NEAR(simulate_strategy(Strategy::Async, options).utilization, 1, 1e-9);
  }
}

TEST(Strategies, EqualWorkersNeverWait) {
  for (const StrategyResult& result : compare_strategies({.workers = 8, .steps = 10})) {
    EXPECT_EQ(result.of_ideal, 1) << to_text(result.strategy);
    EXPECT_EQ(result.drift, 0) << to_text(result.strategy);
  }
}

TEST(Strategies, TimesOfWorkerSumToRun) {
  for (const StrategyOptions& options : various_options()) {
    for (const StrategyResult& result : compare_strategies(options)) {
      double computing = 0;
      std::int64_t iterations = 0;
      for (const WorkerTimes& each : result.workers) {
        computing += each.computing.count;
        iterations += each.iterations;
        EXPECT_LE(each.computing.count + each.communicating.count + each.waiting.count,
                  result.time.count * (1 + 1e-9));
      }
      EXPECT_GE(iterations, options.workers * options.steps);
      EXPECT_NEAR(result.utilization, computing / (options.workers * result.time.count), 1e-12);
      EXPECT_LE(result.utilization, 1 + 1e-12);
    }
  }
}

TEST(Strategies, AreReproducible) {
  for (const Strategy strategy : all_strategies()) {
    StrategyOptions options{
        .workers = 6, .variation = {.jitter = Jitter::Exponential}, .steps = 100};
    const double once = simulate_strategy(strategy, options).time.count;
    EXPECT_EQ(simulate_strategy(strategy, options).time.count, once);
    options.variation.seed = 2;
    EXPECT_NE(simulate_strategy(strategy, options).time.count, once);
  }
}

/// Trains x on the losses |x - a_t| with a_t = -1 or 1: convex, with gradients of norm 1, on [-1, 1]. An iteration reads
/// x when it starts and changes it when it completes. Returns the mean loss less the least one.
double regret(const StrategyResult& run, int workers, double rate) {
  struct Event {
    double time;
    bool is_read;  ///< after the writes of the same moment
    std::size_t iteration;
    bool operator<(const Event& other) const {
      return std::pair(time, is_read) < std::pair(other.time, other.is_read);
    }
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < run.iterations.size(); ++i) {
    events.push_back({run.iterations[i].start, true, i});
    events.push_back({run.iterations[i].completed, false, i});
  }
  std::stable_sort(events.begin(), events.end());
  std::vector<double> read(run.iterations.size());
  double x = 0;
  double loss = 0;
  double sum = 0;  // of all a_t
  for (const Event& event : events) {
    const IterationTimes& each = run.iterations[event.iteration];
    const auto t = static_cast<double>(each.iteration * workers + each.worker + 1);
    const double target = std::fmod(t * 0.618034, 1) < 0.7 ? 1 : -1;
    if (event.is_read) {
      read[event.iteration] = x;
      loss += std::abs(x - target);
      sum += target;
    } else {
      x -= rate / std::sqrt(t) * (read[event.iteration] > target ? 1 : -1);
    }
  }
  const auto count = static_cast<double>(run.iterations.size());
  return loss / count - (1 - std::abs(sum) / count);  // the best x is the majority's
}

TEST(Ssp, RegretStaysBelowItsBound) {
  const double diameter = std::sqrt(2.0);
  for (const int workers : {1, 4, 16}) {
    for (const int staleness : {0, 3, 15}) {
      for (const std::int64_t steps : {100, 2500}) {
        const StrategyResult run =
            simulate_strategy(Strategy::Ssp, {.workers = workers,
                                              .variation = {.jitter = Jitter::Exponential},
                                              .transfer = {0.1},
                                              .staleness = staleness,
                                              .steps = steps,
                                              .keep_iterations = true});
        const double spread = 2.0 * (staleness + 1) * workers;
        const double bound =
            4 * diameter * std::sqrt(spread / static_cast<double>(run.iterations.size()));
        const double measured = regret(run, workers, diameter / std::sqrt(spread));
        EXPECT_LE(measured, bound) << workers << " " << staleness << " " << steps;
        EXPECT_GT(measured, -0.01) << workers << " " << staleness << " " << steps;
      }
    }
  }
}

TEST(Grouped, TwoIterationsReachAllWorkers) {
  std::vector<double> values(16);
  std::iota(values.begin(), values.end(), 0);
  for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
    std::map<int, std::vector<std::size_t>> groups;
    for (int worker = 0; worker < 16; ++worker) {
      groups[group_of(worker, iteration, 16, 4)].push_back(static_cast<std::size_t>(worker));
    }
    for (const auto& [group, members] : groups) {
      double sum = 0;
      for (const std::size_t member : members) {
        sum += values[member];
      }
      for (const std::size_t member : members) {
        values[member] = sum / static_cast<double>(members.size());
      }
    }
  }
  EXPECT_EQ(values, std::vector<double>(16, 7.5));
}

TEST(Strategies, CommunicationMatchesRingTime) {
  const StrategyOptions options{.workers = 8, .alpha = {1e-6}, .transfer = {1e-3}};
  const Formula ring = formula(Operation::Allreduce, Algorithm::Ring, {.ranks = 8});
  const double expected = ring.at(1e6, CostModel::uniform({1e-6}, {1e-9}, {0})).count;
  EXPECT_NEAR(communication_time(Strategy::Allreduce, options).count, expected, 1e-12);
}

TEST(Strategies, RejectInvalidOptions) {
  expect_error(ErrorKind::Usage, "0 workers",
               [] { (void)simulate_strategy(Strategy::Bsp, {.workers = 0}); });
  expect_error(ErrorKind::Usage, "9 of 8 workers are slow",
               [] { (void)simulate_strategy(Strategy::Bsp, {.variation = {.slow_workers = 9}}); });
  EXPECT_THROW((void)parse_jitter("normal"), Error);
  for (const char* text : {"", "1", "x2", "1x", "-1x2", "1x0", "1x2x3"}) {
    EXPECT_THROW((void)parse_count_and_factor(text), Error) << text;
  }
  EXPECT_EQ(parse_count_and_factor("0.05x10").factor, 10);
}

}  // namespace
}  // namespace trireme::simulate
