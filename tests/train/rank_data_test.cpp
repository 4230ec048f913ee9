// Data that stays on its rank: it trains as if one device had all of it, and no sample is sent.
#include "train/run/rank_data.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/run_all.h"
#include "trireme/comm.h"
#include "trireme/cpu_device.h"

namespace trireme {
namespace {

constexpr std::int64_t kRunBatch = 8;

class RankData : public ::testing::Test {
 protected:
  RankData() {
    for (int rank = 0; rank < 2; ++rank) {
      std::string text;
      for (int i = 0; i < 300; ++i) {
        text += fmt::format("rank {} rows {} strokes. ", rank, i * (rank + 3) % 71);
      }
      (void)folder_.file(fmt::format("shard-{}.txt", rank), text);
    }
  }

  RunOptions options(const std::string& mesh, int microbatches) {
    RunOptions options;
    options.settings.model = "gpt-nano";
    options.settings.data = {folder_ / "shard-{rank}.txt"};
    options.settings.batch = kRunBatch;
    options.settings.length = 32;
    options.settings.steps = 4;
    options.settings.dtype = "f64";
    options.plan.mesh = parse_mesh(mesh);
    options.plan.microbatches = microbatches;
    options.rank_kind = RankKind::Threads;
    options.make_device = cpu_devices(1);
    options.run_folder = folder_ / fmt::format("run-{}", ++runs_);
    return options;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

/// The rows of both ranks in one batch, for one device.
class RowsOfBoth : public Batches {
 public:
  RowsOfBoth(std::array<std::unique_ptr<Batches>, 2> own, int microbatches) {
    const std::int64_t share = kRunBatch / 2;
    const std::int64_t windows = std::min(own[0]->epoch_size(), own[1]->epoch_size());
    for (int rank = 0; rank < 2; ++rank) {
      ranks_.at(static_cast<std::size_t>(rank)) =
          train::make_rank_batches(std::move(own.at(static_cast<std::size_t>(rank))),
                                   {.rank = rank,
                                    .ranks = 2,
                                    .microbatches = microbatches,
                                    .batch = kRunBatch,
                                    .windows = windows / share * share,
                                    .row_bytes = 32 * sizeof(std::int32_t)});
    }
  }
  void fill(DataPosition at, const BatchMemory& to) const override {
    for (const auto& rank : ranks_) {
      rank->fill(at, to);
    }
  }
  [[nodiscard]] DataPosition advance(DataPosition at, std::int64_t examples) const override {
    return ranks_[0]->advance(at, examples);
  }

 private:
  std::array<std::unique_ptr<Batches>, 2> ranks_;
};

TEST_F(RankData, TrainsLikeOneDeviceOnSameRows) {
  for (const auto& [mesh, microbatches] :
       {std::pair("data=2", 1), {"data=2", 2}, {"data=2,tensor=2", 1}, {"data=2,pipe=2", 2}}) {
    RunOptions alone = options("", microbatches);
    alone.open_data = [microbatches = microbatches](const TrainSettings& settings,
                                                    const AnyModelConfig& model) {
      TrainData all = open_train_data(train::with_rank_files(settings, 0), model);
      TrainData other = open_train_data(train::with_rank_files(settings, 1), model);
      all.training = std::make_unique<RowsOfBoth>(
          std::array{std::move(all.training), std::move(other.training)}, microbatches);
      all.validation = std::make_unique<RowsOfBoth>(
          std::array{std::move(all.validation), std::move(other.validation)}, 1);
      return all;
    };
    const Ran expected = run_all(alone);
    const Ran ran = run_all(options(mesh, microbatches));
    ASSERT_EQ(ran.losses.size(), 4U) << mesh;
    for (const auto& [step, loss] : expected.losses) {
      EXPECT_NEAR(ran.losses.at(step), loss, 1e-9 * loss) << mesh << ", step " << step;
    }
    EXPECT_NEAR(*ran.summary.validation, *expected.summary.validation, 1e-9) << mesh;
  }
}

std::int64_t total(const SentBytes& sent) {
  return std::accumulate(sent.by_operation.begin(), sent.by_operation.end(), sent.messages);
}

/// Ranks that share memory read it and send nothing, unless collectives are to send.
WorldOptions that_sends() {
  WorldOptions options;
  for (const auto& [operation, algorithm] : {std::pair(Operation::Allreduce, Algorithm::Ring),
                                             {Operation::Allgather, Algorithm::Ring},
                                             {Operation::ReduceScatter, Algorithm::Ring},
                                             {Operation::Alltoall, Algorithm::Pairwise}}) {
    TuningRow row;
    row.operation = operation;
    row.transport = TransportKind::InProcess;
    row.to = Bytes{std::int64_t{1} << 40};
    row.method = Method::scheduled(algorithm);
    options.tuning.rows.push_back(row);
  }
  return options;
}

/// Bytes that the ranks send in a step.
std::int64_t bytes_of_a_step(const RunOptions& options) {
  std::array<std::int64_t, 2> sent{};
  const auto body = [&](World& world) {
    run_rank(options, world, [&](TrainingRun& run) {
      (void)run.run_step();
      const std::int64_t before = total(world.bytes_sent());
      (void)run.run_step();
      sent.at(static_cast<std::size_t>(world.rank())) = total(world.bytes_sent()) - before;
    });
  };
  run_threads(2, body, that_sends());
  return sent[0] + sent[1];
}

/// What the ranks send is as much with twice the samples: gradients.
TEST_F(RankData, SendsNoSamples) {
  RunOptions small = options("data=2", 1);
  RunOptions large = options("data=2", 1);
  large.settings.batch = 2 * kRunBatch;
  const std::int64_t sent = bytes_of_a_step(small);
  EXPECT_GT(sent, 0);
  EXPECT_EQ(bytes_of_a_step(large), sent);
}

TEST_F(RankData, RejectsInvalidOptions) {
  const auto refusal = [&](const std::function<void(RunOptions&)>& change) {
    RunOptions run = options("data=2", 1);
    change(run);
    const std::vector<std::string> found = problems(run);
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(refusal([](RunOptions&) {}), "");
  EXPECT_EQ(refusal([](RunOptions& run) { run.settings.batch = 7; }),
            "--data with {rank}: --batch 7 does not divide evenly into 2 parts, one for each rank "
            "along data and micro-batch; use a multiple");
  EXPECT_EQ(refusal([](RunOptions& run) {
              run.settings.sync = "local=2";
              run.settings.dtype = "f32";
            }),
            "--data with {rank} requires --sync allreduce, and --sync is local=2");
}

}  // namespace
}  // namespace trireme
