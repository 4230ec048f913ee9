#include "comm/group/group_model.h"

#include <vector>

#include <gtest/gtest.h>

#include "comm/run_ranks.h"
#include "trireme/comm.h"

namespace trireme::comm {
namespace {

using test::require;
using test::run_ranks;

/// 1 us for a wait, 10 GB/s for all memory, and messages of 2 us and 1 GB/s.
HostCosts plain_host() {
  return {.cores = 4,
          .messages = {{"shm", {2e-6}, {1e-9}}, {"tcp", {2e-5}, {2e-9}}},
          .combining = {{"f32", {1e-10}}, {"bf16", {3e-10}}},
          .waits = {{4, {1e-6}, {1e-6}}, {8, {1e-5}, {2e-5}}},
          .copy = {{{1}, {1e-10}, {1e-10}}},
          .combine = {{{1}, {1e-10}, {1e-10}}},
          .stage = {1e-10},
          .fetch = {1e-10},
          .peek = {"system", {1e-6}, {1e-10}}};
}

/// As if waiting were expensive and messages were free.
HostCosts chatty_host() {
  HostCosts costs = plain_host();
  costs.messages = {{"shm", {1e-9}, {1e-12}}, {"in-process", {1e-9}, {1e-12}}};
  costs.waits = {{4, {1e-6}, {1.0}}};
  return costs;
}

GroupModel model(std::optional<HostCosts> costs, Rank ranks = 4,
                 TransportKind transport = TransportKind::SharedMemory) {
  return {{.ranks = ranks,
           .ranks_per_host = ranks,
           .transport = transport,
           .shares_memory = transport != TransportKind::Tcp},
          std::move(costs)};
}

GroupModel::Query allreduce_of(std::int64_t bytes, DType dtype = DType::F32) {
  return {.operation = Operation::Allreduce, .bytes = {bytes}, .dtype = dtype};
}

double predicted(const GroupModel& model, const GroupModel::Query& query, const Method& method) {
  return model.predict(query, method, Sight::Hidden).value().count;
}

TEST(GroupModel, PredictsFromMeasurements) {
  const GroupModel host = model(plain_host());
  const double n = 1 << 20;
  // A ring of 4: 6 steps in which each rank sends n/4, 3 of them combined; plus the initial wait. Four messages at a
  // time need eight cores and have four.
  EXPECT_NEAR(predicted(host, allreduce_of(1 << 20), Method::scheduled(Algorithm::Ring)),
              1e-6 + 6 * (2e-6 + n / 4 * 2e-9) + 3 * n / 4 * 1e-10, 1e-9);
  const double direct = predicted(host, allreduce_of(1 << 20), Method::direct());
  EXPECT_GT(direct, 2 * n * 1e-10);
  EXPECT_LT(direct, 10 * n * 1e-10);
  EXPECT_FALSE(
      model(std::nullopt).predict(allreduce_of(8), Method::direct(), Sight::Hidden).has_value());
}

TEST(GroupModel, PredictsExchangesFromMeasuredExchanges) {
  HostCosts costs = plain_host();
  costs.cores = 2;
  // 1 us and 1 GB/s in one direction; both at once 2 us and 0.5 GB/s.
  const double mib = 1 << 20;
  costs.messages[1].points = {{{8}, {1e-6}, {2e-6}},
                              {{8 + (1 << 20)}, {1e-6 + mib * 1e-9}, {2e-6 + mib * 2e-9}}};
  const GroupModel two = model(costs, 2, TransportKind::Tcp);
  const auto time = [](const GroupModel& group, Operation operation, Algorithm algorithm) {
    return predicted(group, {.operation = operation, .bytes = {2 * (8 + (1 << 20))}},
                     Method::scheduled(algorithm));
  };
  EXPECT_NEAR(time(two, Operation::Broadcast, Algorithm::Flat), 1e-6 + (2 * mib + 8) * 1e-9, 1e-9);
  EXPECT_NEAR(time(two, Operation::Allgather, Algorithm::Ring), 2e-6 + mib * 2e-9, 1e-9);
  // Four at a time on two cores: the bytes take twice as long.
  costs.waits = {{4, {1e-6}, {0}}};
  const GroupModel four = model(costs, 4, TransportKind::Tcp);
  EXPECT_NEAR(time(four, Operation::Allgather, Algorithm::Ring),
              3 * (1e-6 + 2 * ((mib + 8) / 2 - 8) * 2e-9), 1e-9);
}

/// Messages were measured between two ranks. If all cores are busy, each gets less memory bandwidth.
TEST(GroupModel, ManyRanksShareMemoryBandwidth) {
  HostCosts costs = plain_host();
  costs.cores = 16;
  costs.copy = {
      {{1}, {1e-10}, {4e-10}}};  // two ranks get all the bandwidth they can use, 16 a fourth of it
  costs.messages[0].points = {{{8}, {1e-6}, {1e-6}},
                              {{1 << 26}, {(1 << 26) * 1e-9}, {(1 << 26) * 1e-9}}};
  const auto time = [&](Rank ranks) {
    return predicted(model(costs, ranks),
                     {.operation = Operation::Alltoall, .bytes = {std::int64_t{ranks} << 22}},
                     Method::scheduled(Algorithm::Pairwise));
  };
  const double step = (1 << 22) * 1e-9;
  EXPECT_NEAR(time(2), step, 0.01 * step);
  EXPECT_NEAR(time(16), 15 * (step + (1 << 22) * 2 * 3e-10), 0.01 * 15 * step);
}

TEST(GroupModel, ChargesSlowTypesMore) {
  const GroupModel host = model(plain_host());
  EXPECT_GT(predicted(host, allreduce_of(1 << 20, DType::BF16), Method::direct()),
            predicted(host, allreduce_of(1 << 20), Method::direct()));
  // Its sums travel as f32.
  EXPECT_GT(predicted(host, allreduce_of(1 << 20, DType::BF16), Method::scheduled(Algorithm::Ring)),
            1.9 * predicted(host, allreduce_of(1 << 20), Method::scheduled(Algorithm::Ring)));
}

TEST(GroupModel, OversubscribedRanksTakeTurns) {
  const GroupModel host = model(plain_host(), 8);
  // 6 rounds, each a scheduler time slice; 8 messages at a time need 16 cores and have 4.
  EXPECT_NEAR(
      predicted(host, allreduce_of(1 << 20), Method::scheduled(Algorithm::RecursiveHalving)),
      1e-5 + 6 * 2e-5 + 2 * 7.0 / 8 * (1 << 20) * 4e-9 + 7.0 / 8 * (1 << 20) * 2e-10, 1e-7);
}

TEST(GroupModel, ChoosesFastest) {
  EXPECT_EQ(model(std::nullopt).choose(allreduce_of(1 << 20)), Method::direct());
  EXPECT_EQ(model(plain_host()).choose(allreduce_of(1 << 20)), Method::direct());
  EXPECT_EQ(model(chatty_host()).choose(allreduce_of(1 << 20)).kind, Method::Kind::Scheduled);
  // Small ones with few messages, long ones with few bytes.
  GroupModel network = model(plain_host(), 4, TransportKind::Tcp);
  EXPECT_EQ(network.choose(allreduce_of(8)), Method::scheduled(Algorithm::RecursiveDoubling));
  EXPECT_NE(network.choose(allreduce_of(1 << 26)), Method::scheduled(Algorithm::RecursiveDoubling));
}

TEST(GroupModel, OneRankUsesDirect) {
  EXPECT_EQ(model(chatty_host(), 1).choose(allreduce_of(1 << 20)), Method::direct());
}

TEST(GroupModel, CrossoverFollowsCosts) {
  HostCosts slow = plain_host();
  slow.messages[1].alpha = {1.0};  // then even a long vector uses few messages
  EXPECT_EQ(model(slow, 4, TransportKind::Tcp).choose(allreduce_of(1 << 26)),
            Method::scheduled(Algorithm::RecursiveDoubling));
}

TEST(GroupModel, PicksCheaperStaging) {
  HostCosts costs = plain_host();
  EXPECT_FALSE(costs.stages_cached());
  costs.cached = PassCost{{3e-10}, {1e-10}};
  EXPECT_FALSE(costs.stages_cached());
  const double past = predicted(model(costs), allreduce_of(1 << 20), Method::direct());
  costs.cached = PassCost{{2e-11}, {1e-11}};
  EXPECT_TRUE(costs.stages_cached());
  EXPECT_LT(predicted(model(costs), allreduce_of(1 << 20), Method::direct()), past);
}

TEST(GroupModel, DrivesAlgorithmSelectionOfGroups) {
  for (const TransportKind kind : {TransportKind::InProcess, TransportKind::SharedMemory}) {
    for (const bool chatty : {false, true}) {
      run_ranks(kind, 2,
                [chatty](World& world) {
                  std::vector<float> data(1 << 18, 1.0F);
                  const std::string method = world.all().method_of(allreduce<float>(data));
                  require((method == "direct") == !chatty, method);
                  world.all().run(allreduce<float>(data));
                  require(data[5] == 2, "wrong sum");
                },
                {.costs = chatty ? chatty_host() : plain_host()});
    }
  }
}

TEST(GroupModel, MayStageThroughCaches) {
  HostCosts costs = plain_host();
  costs.cached = PassCost{};
  run_ranks(TransportKind::SharedMemory, 3,
            [](World& world) {
              std::vector<float> data(1 << 19, 1.0F);
              world.all().run(allreduce<float>(data, {.method = Method::direct()}));
              require(data[3] == 3 && data.back() == 3, "wrong sum");
            },
            {.costs = costs});
}

}  // namespace
}  // namespace trireme::comm
