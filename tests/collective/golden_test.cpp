// Golden numbers from the literature: costs, crossovers, schedules and traffic totals.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "collective/test_costs.h"

namespace trireme {
namespace {

using enum Operation;

double simulated(Operation operation, Algorithm algorithm, Rank p, std::int64_t n) {
  return time_schedule(build(operation, algorithm, {.ranks = p}), {n}, kCosts).seconds.count;
}

// Costs, from simulated schedules.
TEST(Golden, Costs) {
  struct Row {
    Rank p;
    std::int64_t n;
    std::array<double, 11> seconds;
  };
  static constexpr std::array<Row, 7> kRows{{
      {8,
       1024,
       {6.072e-06, 6.3792e-06, 3.896e-06, 9.968e-06, 1.02752e-05, 1.24512e-05, 7.9856e-06,
        7.896e-06, 1.58816e-05, 1.1792e-05, 1.18816e-05}},
      {8,
       1048576,
       {0.00314873, 0.0034633, 0.000920504, 0.00406923, 0.0043838, 0.00661203, 0.00101625,
        0.000924504, 0.00194076, 0.00184501, 0.00193676}},
      {9,
       9216,
       {4.0864e-05, 4.45504e-05, 1.2192e-05, 5.3056e-05, 5.67424e-05, 8.54144e-05, 1.70112e-05,
        1.6192e-05, 3.32032e-05, 2.8384e-05, 2.92032e-05}},
      {9,
       1179648,
       {0.00472259, 0.00519445, 0.00105258, 0.00577517, 0.00624703, 0.00991704, 0.00116143,
        0.00105658, 0.00221801, 0.00210915, 0.00221401}},
      {3,
       3072,
       {8.144e-06, 8.7584e-06, 4.048e-06, 1.2192e-05, 1.28064e-05, 1.69024e-05, 4.2528e-06,
        4.048e-06, 8.3008e-06, 8.096e-06, 8.3008e-06}},
      {6,
       6144,
       {2.1432e-05, 2.32752e-05, 8.12e-06, 2.9552e-05, 3.13952e-05, 4.47072e-05, 1.0632e-05,
        1.012e-05, 2.0752e-05, 1.824e-05, 1.8752e-05}},
      {2,
       1024,
       {2.024e-06, 2.1264e-06, 1.512e-06, 3.536e-06, 3.6384e-06, 4.1504e-06, 1.5632e-06, 1.512e-06,
        3.0752e-06, 3.024e-06, 3.0752e-06}},
  }};
  static constexpr std::array<std::pair<Operation, Algorithm>, 11> kColumns{
      {{Broadcast, Algorithm::Mst},
       {Reduce, Algorithm::Mst},
       {Scatter, Algorithm::Mst},
       {Allgather, Algorithm::Mst},
       {ReduceScatter, Algorithm::Mst},
       {Allreduce, Algorithm::Mst},
       {ReduceScatter, Algorithm::Ring},
       {Allgather, Algorithm::Ring},
       {Allreduce, Algorithm::Ring},
       {Broadcast, Algorithm::Long},
       {Reduce, Algorithm::Long}}};
  for (const Row& row : kRows) {
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto [operation, algorithm] = kColumns[i];
      EXPECT_NEAR(simulated(operation, algorithm, row.p, row.n), row.seconds[i],
                  1e-5 * row.seconds[i])
          << to_text(operation) << " " << to_text(algorithm) << " p=" << row.p << " n=" << row.n;
    }
    EXPECT_NEAR(simulated(Gather, Algorithm::Mst, row.p, row.n), row.seconds[2],
                1e-5 * row.seconds[2]);
  }
}

/// n* of the long-vector algorithm over the short one.
std::optional<double> golden_crossover(Operation operation, Rank p) {
  const Algorithm longer =
      operation == Broadcast || operation == Reduce ? Algorithm::Long : Algorithm::Ring;
  return crossover(formula(operation, Algorithm::Mst, {.ranks = p}).inner,
                   formula(operation, longer, {.ranks = p}).inner, kCosts);
}

TEST(Golden, Crossovers) {
  struct Row {
    Rank p;
    std::array<double, 5> bytes;
  };
  static constexpr std::array<Operation, 5> kOperations{Allreduce, Broadcast, Reduce, Allgather,
                                                        ReduceScatter};
  static constexpr std::array<Row, 3> kRows{{{8, {1792.7, 5600.0, 4786.3, 333.3, 311.3}},
                                             {16, {3420.8, 7058.8, 6169.7, 1750.0, 1625.5}},
                                             {256, {33586.7, 42444.7, 38013.2, 29875.0, 27470.0}}}};
  for (const Row& row : kRows) {
    for (std::size_t i = 0; i < kOperations.size(); ++i) {
      EXPECT_NEAR(golden_crossover(kOperations[i], row.p).value(), row.bytes[i], 0.05)
          << to_text(kOperations[i]) << row.p;
    }
  }
  EXPECT_NEAR(golden_crossover(Allreduce, 4).value(), 761.9, 0.05);
  EXPECT_NEAR(golden_crossover(Broadcast, 4).value(), 6000, 0.05);
  EXPECT_NEAR(golden_crossover(Reduce, 4).value(), 4800, 0.05);
  EXPECT_LE(golden_crossover(Allgather, 4).value(), 0);
  EXPECT_LE(golden_crossover(ReduceScatter, 4).value(), 0);
  EXPECT_EQ(golden_crossover(Allreduce, 2).value(), 0);
  EXPECT_FALSE(golden_crossover(Broadcast, 2));
  EXPECT_NEAR(golden_crossover(Reduce, 2).value(), 20000, 0.05);
  EXPECT_LE(golden_crossover(Allgather, 2).value(), 0);
}

// The ring wins at every n for p-1 <= 2L (p <= 7 and 9), all-reduce for p <= 3.
TEST(Golden, RingWinsAtEverySizeForFewRanks) {
  for (Rank p = 2; p <= 33; ++p) {
    const bool always = p <= 7 || p == 9;
    for (const Operation operation : {Allgather, ReduceScatter}) {
      EXPECT_EQ(golden_crossover(operation, p).value() <= 0, always)
          << to_text(operation) << " " << p;
    }
    EXPECT_EQ(golden_crossover(Allreduce, p).value() <= 0, p <= 3) << p;
  }
}

/// "1>8 | 1>4 8>6 | …": who sends to whom.
std::string pairs(const Schedule& schedule) {
  std::string out;
  for (const Step& step : schedule.steps) {
    out += out.empty() ? "" : "| ";
    for_each_message(step, [&](const Message& m) {
      out += std::to_string(m.from) + ">" + std::to_string(m.to) + " ";
    });
  }
  return out;
}

TEST(Golden, MstBroadcastOf9RanksFromRoot1) {
  EXPECT_EQ(pairs(build(Broadcast, Algorithm::Mst, {.ranks = 9, .root = 1})),
            "1>8 | 1>4 8>6 | 1>2 4>3 6>5 8>7 | 1>0 ");
}

// In step t, rank i sends block i-t to i+1.
TEST(Golden, RingAllgatherOf9RanksMovesRight) {
  const Schedule schedule = build(Allgather, Algorithm::Ring, {.ranks = 9});
  ASSERT_EQ(schedule.steps.size(), 8U);
  for (int t = 0; t < 8; ++t) {
    for_each_message(schedule.steps[t], [&](const Message& m) {
      EXPECT_EQ(m.to, (m.from + 1) % 9);
      EXPECT_EQ(m.blocks.front(), (BlockRun{(m.from - t + 9) % 9, 1, 1}));
      EXPECT_EQ(m.action, Action::Copy);
    });
  }
}

// In step t, rank i sends its partial block i+1+t to i-1; rank i ends with block i.
TEST(Golden, RingReduceScatterOf9RanksMovesLeft) {
  const Schedule schedule = build(ReduceScatter, Algorithm::Ring, {.ranks = 9});
  ASSERT_EQ(schedule.steps.size(), 8U);
  for (int t = 0; t < 8; ++t) {
    for_each_message(schedule.steps[t], [&](const Message& m) {
      EXPECT_EQ(m.to, (m.from + 8) % 9);
      EXPECT_EQ(m.blocks.front(), (BlockRun{(m.from + 1 + t) % 9, 1, 1}));
      EXPECT_EQ(m.action, Action::Combine);
    });
  }
}

// The three-worker ring all-reduce with its intermediate states.
TEST(Golden, RingAllreduceOfThreeWorkers) {
  Values workers{
      {{5, 13}, {8, 19}, {42, 1}}, {{8, 11}, {4, 2}, {7, 7}}, {{9, 27}, {3, 15}, {8, 4}}};
  const std::vector<Values> after{
      {{{5, 13}, {8, 19}, {50, 5}}, {{13, 24}, {4, 2}, {7, 7}}, {{9, 27}, {7, 17}, {8, 4}}},
      {{{5, 13}, {15, 36}, {50, 5}}, {{13, 24}, {4, 2}, {57, 12}}, {{22, 51}, {7, 17}, {8, 4}}},
      {{{22, 51}, {15, 36}, {50, 5}},
       {{13, 24}, {15, 36}, {57, 12}},
       {{22, 51}, {7, 17}, {57, 12}}},
      {{{22, 51}, {15, 36}, {57, 12}},
       {{22, 51}, {15, 36}, {57, 12}},
       {{22, 51}, {15, 36}, {57, 12}}}};
  std::size_t steps = 0;
  replay(build(Allreduce, Algorithm::Ring, {.ranks = 3}), workers, [&](std::size_t t) {
    EXPECT_EQ(workers, after.at(t)) << "after step " << t + 1;
    ++steps;
  });
  EXPECT_EQ(steps, 4U);
}

// The split keeps p-1 blocks on the critical path for every p and root.
TEST(Golden, MstScatterSendsMinimum) {
  for (Rank p = 1; p <= 128; ++p) {
    for (Rank root = 0; root < p; ++root) {
      const double seconds =
          time_schedule(build(Scatter, Algorithm::Mst, {.ranks = p, .root = root}), {p},
                        CostModel::uniform({0}, {1}, {0}))
              .seconds.count;
      EXPECT_EQ(seconds, p - 1) << p << " " << root;
    }
  }
}

// Totals in whole vectors at K = 8 and 16, Time and Peak.
TEST(Golden, TrafficTotals) {
  struct Row {
    Algorithm algorithm;
    double total8;
    double total16;
    std::int64_t rounds8;
    double peak8;
  };
  static constexpr std::array<Row, 5> kRows{{{Algorithm::Naive, 56, 240, 8, 7},
                                             {Algorithm::WholeRing, 56, 240, 7, 1},
                                             {Algorithm::Ring, 14, 30, 14, 0.125},
                                             {Algorithm::RecursiveDoubling, 24, 64, 3, 1},
                                             {Algorithm::RecursiveHalving, 14, 30, 6, 0.5}}};
  for (const Row& row : kRows) {
    const Traffic eight = count_traffic(build(Allreduce, row.algorithm, {.ranks = 8}), {1024});
    const Traffic sixteen = count_traffic(build(Allreduce, row.algorithm, {.ranks = 16}), {1024});
    EXPECT_EQ(eight.total, row.total8) << to_text(row.algorithm);
    EXPECT_EQ(sixteen.total, row.total16) << to_text(row.algorithm);
    EXPECT_EQ(eight.rounds, row.rounds8) << to_text(row.algorithm);
    EXPECT_EQ(eight.peak, row.peak8) << to_text(row.algorithm);
  }
  const Traffic one_to_many =
      count_traffic(build(Broadcast, Algorithm::Flat, {.ranks = 8}), {1024});
  EXPECT_EQ(one_to_many.rounds, 1);
  EXPECT_EQ(one_to_many.peak, 7);
  EXPECT_EQ(one_to_many.total, 7);
}

// How the totals grow, as exponents fitted over K = 4 … 64.
TEST(Golden, GrowthExponents) {
  const auto exponent = [](Algorithm algorithm) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, count = 0;
    for (Rank k = 4; k <= 64; k *= 2) {
      const double x = std::log(k);
      const double y =
          std::log(count_traffic(build(Allreduce, algorithm, {.ranks = k}), {64}).total);
      sx += x, sy += y, sxx += x * x, sxy += x * y, ++count;
    }
    return (count * sxy - sx * sy) / (count * sxx - sx * sx);
  };
  EXPECT_NEAR(exponent(Algorithm::Naive), 2.0, 0.1);
  EXPECT_NEAR(exponent(Algorithm::WholeRing), 2.0, 0.1);
  EXPECT_NEAR(exponent(Algorithm::Ring), 1.0, 0.1);
  EXPECT_NEAR(exponent(Algorithm::RecursiveHalving), 1.0, 0.1);
  EXPECT_GT(exponent(Algorithm::RecursiveDoubling), 1.2);  // K log K
  EXPECT_LT(exponent(Algorithm::RecursiveDoubling), 1.7);
}

// Resharding costs at n = 1 MiB, p = 4.
TEST(Golden, RepartitionCosts) {
  const std::int64_t n = 1 << 20;
  EXPECT_NEAR(simulated(Allgather, Algorithm::Ring, 4, n), 7.894e-4, 5e-8);
  EXPECT_NEAR(simulated(Alltoall, Algorithm::Pairwise, 4, n / 4), 1.996e-4, 5e-8);
}

// All-to-all is the transpose of the blocks; doing it twice restores the input.
TEST(Golden, AlltoallTransposes) {
  for (const Algorithm algorithm : algorithms_for(Alltoall)) {
    const Schedule schedule = build(Alltoall, algorithm, {.ranks = 4});
    Values values(4, std::vector<std::vector<double>>(16, {-1}));
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t d = 0; d < 4; ++d) {
        values[s][s * 4 + d] = {static_cast<double>(10 * s + d)};
      }
    }
    replay(schedule, values);
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t d = 0; d < 4; ++d) {
        EXPECT_EQ(values[d][s * 4 + d], std::vector<double>{static_cast<double>(10 * s + d)})
            << to_text(algorithm);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
