// Synchronization strategies on vectors, through real ranks: averages that are known exactly, and bytes that are sent.
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/sync/mixer.h"
#include "train/sync/tree_steps.h"
#include "trireme/comm.h"

namespace trireme::train {
namespace {

/// What each of `workers` ends with, if worker i starts with the value i and no worker computes anything.
std::vector<std::vector<float>> mixed(const std::string& strategy, Rank workers,
                                      std::int64_t steps) {
  constexpr std::size_t kElements = 3;
  std::vector<std::vector<float>> models(static_cast<std::size_t>(workers));
  run_threads(workers, [&](World& world) {
    std::vector<float>& model = models[static_cast<std::size_t>(world.rank())];
    model.assign(kElements, static_cast<float>(world.rank()));
    const std::unique_ptr<Mixer> mixer = make_mixer(parse_sync(strategy), world.all());
    mixer->reset(model);
    for (std::int64_t step = 1; step <= steps; ++step) {
      mixer->mix(step, model);
    }
  });
  return models;
}

void expect_all(const std::vector<std::vector<float>>& models, float value) {
  for (const std::vector<float>& model : models) {
    EXPECT_EQ(model, std::vector<float>(model.size(), value));
  }
}

TEST(GossipMixer, OffsetsOneTwoFourAverageEightWorkers) {
  expect_all(mixed("gossip", 8, 3), 3.5F);
}

TEST(GossipMixer, TwoStepsAverageWorkerAndThreePredecessors) {
  const std::vector<std::vector<float>> models = mixed("gossip", 8, 2);
  for (std::size_t worker = 0; worker < models.size(); ++worker) {
    std::size_t sum = 0;
    for (std::size_t distance = 0; distance < 4; ++distance) {
      sum += (worker + 8 - distance) % 8;
    }
    EXPECT_EQ(models[worker][0], static_cast<float>(sum) / 4);
  }
}

TEST(GossipMixer, ConvergesToMeanForAnyWorkerCount) {
  for (const Rank workers : {2, 3, 5, 7}) {
    for (const std::vector<float>& model : mixed("gossip", workers, 60)) {
      EXPECT_NEAR(model[0], static_cast<float>(workers - 1) / 2, 1e-4) << workers;
    }
  }
}

TEST(GossipMixer, SendsOneModelToOneWorkerPerStep) {
  constexpr std::size_t kElements = 1000;
  run_threads(8, [&](World& world) {
    const std::unique_ptr<Mixer> mixer = make_mixer(parse_sync("gossip"), world.all());
    std::vector<float> model(kElements, 1.0F);
    mixer->reset(model);
    const SentBytes before = world.bytes_sent();
    mixer->mix(1, model);
    const SentBytes after = world.bytes_sent();
    EXPECT_EQ(after.messages - before.messages, (kElements + 1) * sizeof(float));
    EXPECT_EQ(after.by_operation, before.by_operation);
  });
}

TEST(GossipMixer, AddsUpdatesOfAllWorkers) {
  constexpr Rank kWorkers = 4;
  run_threads(kWorkers, [&](World& world) {
    const std::unique_ptr<Mixer> mixer = make_mixer(parse_sync("gossip"), world.all());
    std::vector<float> model(2, 1.0F);
    mixer->reset(model);
    for (int step = 1; step <= 10; ++step) {
      for (float& element : model) {
        element += static_cast<float>(world.rank());
      }
      mixer->mix(step, model);
    }
    mixer->average(model);
    EXPECT_FLOAT_EQ(model[0], 1.0F + 10 * 1.5F);
  });
}

TEST(GroupMixer, TwoSwappedRoundsAverageSixteenWorkersInGroupsOfFour) {
  expect_all(mixed("group=4", 16, 2), 7.5F);
}

TEST(GroupMixer, OneRoundAveragesEachGroup) {
  const std::vector<std::vector<float>> models = mixed("group=4", 16, 1);
  for (std::size_t worker = 0; worker < models.size(); ++worker) {
    EXPECT_EQ(models[worker][0], 1.5F + 4 * static_cast<float>(worker / 4));
  }
}

TEST(GroupMixer, ThreeRoundsReachEightWorkersInPairs) {
  expect_all(mixed("group=2", 8, 3), 3.5F);
}

TEST(GroupMixer, GlobalAverageReachesAllInOneRound) {
  expect_all(mixed("group=2,global=1", 6, 1), 2.5F);
}

TEST(GroupMixer, EveryRoundPartitionsWorkers) {
  for (const Rank workers : {2, 5, 6, 16, 17}) {
    for (const Rank size : {2, 3, 4}) {
      for (int round = 0; round < rounds_of(workers, size); ++round) {
        for (Rank worker = 0; worker < workers; ++worker) {
          const std::vector<Rank> group = group_in_round(worker, workers, size, round);
          EXPECT_LE(std::ssize(group), size);
          EXPECT_NE(std::ranges::find(group, worker), group.end());
          for (const Rank other : group) {
            EXPECT_EQ(group_in_round(other, workers, size, round), group);
          }
        }
      }
    }
  }
}

TEST(LocalMixer, AveragesEveryFewSteps) {
  const std::vector<std::vector<float>> before = mixed("local=3", 4, 2);
  EXPECT_EQ(before[2][0], 2.0F);
  expect_all(mixed("local=3", 4, 3), 1.5F);
}

TEST(HogwildMixer, LosesNoUpdate) {
  constexpr Rank kWorkers = 4;
  constexpr int kSteps = 500;
  run_threads(kWorkers, [&](World& world) {
    const std::unique_ptr<Mixer> mixer = make_mixer(parse_sync("hogwild"), world.all());
    std::vector<float> model(64, 0.0F);
    mixer->reset(model);
    for (int step = 1; step <= kSteps; ++step) {
      for (float& element : model) {
        element += static_cast<float>(kWorkers);
      }
      mixer->mix(step, model);
    }
    mixer->average(model);
    EXPECT_EQ(model, std::vector<float>(64, static_cast<float>(kWorkers * kSteps)));
  });
}

struct TreeTraffic {
  std::int64_t up = 0;
  std::int64_t down = 0;
};

/// Bytes that each worker sends in a step with these elements.
std::vector<TreeTraffic> tree_traffic(Rank workers, std::size_t gradients, std::size_t model) {
  std::vector<TreeTraffic> traffic(static_cast<std::size_t>(workers));
  run_threads(workers, [&](World& world) {
    std::vector<float> up(gradients, static_cast<float>(world.rank()));
    std::vector<float> down(model, world.rank() == 0 ? 2.5F : 0.0F);
    const SentBytes before = world.bytes_sent();
    reduce_up(world.all(), up);
    broadcast_down(world.all(), down);
    const SentBytes after = world.bytes_sent();
    traffic[static_cast<std::size_t>(world.rank())] = {
        .up = after.of(Operation::Reduce) - before.of(Operation::Reduce),
        .down = after.of(Operation::Broadcast) - before.of(Operation::Broadcast)};
    EXPECT_EQ(down, std::vector<float>(model, 2.5F));
    if (world.rank() == 0) {
      EXPECT_EQ(up[0], static_cast<float>(workers * (workers - 1) / 2));
    }
  });
  return traffic;
}

TEST(TreeSteps, SendGradientsUpAndModelDown) {
  constexpr std::size_t kGradients = 300;
  constexpr std::size_t kModel = 200;
  constexpr std::int64_t kUp = kGradients * sizeof(float);
  constexpr std::int64_t kDown = kModel * sizeof(float);
  for (const Rank workers : {7, 15, 10}) {
    const std::vector<TreeTraffic> traffic = tree_traffic(workers, kGradients, kModel);
    std::int64_t total = 0;
    std::vector<std::int64_t> children;
    for (std::size_t worker = 0; worker < traffic.size(); ++worker) {
      EXPECT_EQ(traffic[worker].up, worker == 0 ? 0 : kUp) << workers << ", worker " << worker;
      EXPECT_EQ(traffic[worker].down % kDown, 0);
      children.push_back(traffic[worker].down / kDown);
      total += traffic[worker].up + traffic[worker].down;
    }
    EXPECT_EQ(children[0], 2);
    EXPECT_EQ(std::ranges::count(children, 2), (workers - 1) / 2) << workers;
    EXPECT_EQ(std::ranges::count(children, 1), (workers - 1) % 2) << workers;
    EXPECT_EQ(total, (workers - 1) * (kUp + kDown)) << workers;
  }
}

}  // namespace
}  // namespace trireme::train
