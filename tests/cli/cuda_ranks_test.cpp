// `trireme train` on several ranks that use CUDA devices, which they share where there are fewer.
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/training_runs.h"
#include "trireme/cuda_device.h"

namespace trireme {
namespace {

/// Options, and those of the run on one rank that must have the same losses.
struct CudaCase {
  const char* name;
  const char* options;
  const char* one_rank = "";
};

class CudaRanks : public TrainRanks, public ::testing::WithParamInterface<CudaCase> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) {
      GTEST_SKIP() << "this machine has no CUDA device";
    }
  }
  void expect_losses_of_one_rank(const std::string& exchange) {
    expect_losses_of_one_rank(exchange, "f32", 1e-4);
    expect_losses_of_one_rank(exchange, "bf16", 1e-2);
  }
  void expect_losses_of_one_rank(const std::string& exchange, const std::string& type,
                                 double tolerance) {
    const std::string common = " --device cuda --dtype " + type + " ";
    const std::vector<double> one = losses(GetParam().one_rank + common);
    const std::vector<double> many =
        losses(GetParam().options + common + " --gpu-exchange " + exchange);
    ASSERT_EQ(one.size(), 3U);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(one[i], many[i], tolerance * one[i]) << type << ", step " << i + 1;
    }
  }
};

TEST_P(CudaRanks, LossesMatchSingleRank) {
  expect_losses_of_one_rank("host");
}

TEST_P(CudaRanks, LossesMatchSingleRankByCudaIpc) {
  expect_losses_of_one_rank("ipc");
}

/// Where ranks share a GPU, NCCL takes them for hosts of their own; their traffic stays on this one.
class CudaRanksNccl : public CudaRanks {
 protected:
  void SetUp() override {
    CudaRanks::SetUp();
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);  // NOLINT(concurrency-mt-unsafe): no threads here
  }
};

TEST_P(CudaRanksNccl, LossesMatchSingleRank) {
  expect_losses_of_one_rank("nccl");
}

INSTANTIATE_TEST_SUITE_P(
    Plans, CudaRanks,
    ::testing::Values(CudaCase{"Data", "--mesh data=2"}, CudaCase{"Tensor", "--mesh tensor=2"},
                      CudaCase{"Sequence", "--mesh tensor=2 --sequence"},
                      CudaCase{"OneForwardOneBackward", "--mesh pipe=2 --microbatches 3"},
                      CudaCase{"ZeroBubble", "--mesh pipe=2 --microbatches 3 --schedule zb-h1"},
                      CudaCase{"Zero1", "--mesh data=2 --zero 1"},
                      CudaCase{"Zero3", "--mesh data=2 --zero 3"},
                      CudaCase{"UnevenZero3", "--mesh data=3 --zero 3"},
                      CudaCase{"Ring", "--mesh context=2 --context ring"},
                      CudaCase{"Experts", "--experts 4 --mesh expert=2", "--experts 4"},
                      CudaCase{"Composed",
                               "--mesh data=2,tensor=2,pipe=2 --microbatches 3 --zero 1"}),
    [](const auto& one) { return std::string(one.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Plans, CudaRanksNccl,
    ::testing::Values(CudaCase{"Data", "--mesh data=2"}, CudaCase{"Tensor", "--mesh tensor=2"},
                      CudaCase{"UnevenZero3", "--mesh data=3 --zero 3"},
                      CudaCase{"Experts", "--experts 4 --mesh expert=2", "--experts 4"},
                      CudaCase{"Composed",
                               "--mesh data=2,tensor=2,pipe=2 --microbatches 3 --zero 1"}),
    [](const auto& one) { return std::string(one.param.name); });

class CudaRanksEnd : public CudaRanksNccl {
 protected:
  void expect_a_killed_rank_ends_all(const std::string& options);
};

void CudaRanksEnd::expect_a_killed_rank_ends_all(const std::string& options) {
  const std::unique_ptr<Started> started =
      start(new_run(), "--mesh data=2,tensor=2 --device cuda " + options);
  const std::vector<pid_t> ranks = started->ranks();
  ASSERT_EQ(ranks.size(), 4U);
  kill(ranks[2], SIGKILL);
  const Ran ran = started->wait(kAFewSeconds);
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_NE(ran.err.find("rank 2 was killed by SIGKILL (Killed)"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("rank 0: "), std::string::npos) << ran.err;
}

TEST_F(CudaRanksEnd, KilledRankEndsAllRanks) {
  expect_a_killed_rank_ends_all("--gpu-exchange host");
}

TEST_F(CudaRanksEnd, KilledRankEndsAllRanksWithCudaIpc) {
  expect_a_killed_rank_ends_all("--gpu-exchange ipc");
}

TEST_F(CudaRanksEnd, KilledRankEndsAllRanksWithNccl) {
  expect_a_killed_rank_ends_all("--gpu-exchange nccl");
}

TEST_F(CudaRanksEnd, CheckpointsMoveBetweenDevicesAndMeshes) {
  const std::string run = new_run();
  const std::string start = kSmall + "--json --run-folder ";
  const std::vector<double> whole =
      losses_in(run_program(start + new_run() + " --device cpu --steps 6").out);
  ASSERT_EQ(run_program(start + run + " --steps 2 --device cuda --mesh data=2 --zero 1").exit_code,
            0);
  std::vector<double> parts = resumed(run, "--steps 4 --device cpu --mesh tensor=2");
  const std::vector<double> last =
      resumed(run, "--steps 6 --device cuda --mesh pipe=2 --microbatches 2");
  parts.insert(parts.end(), last.begin(), last.end());
  ASSERT_EQ(whole.size(), 6U);
  ASSERT_EQ(parts.size(), 4U);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_NEAR(parts[i], whole[i + 2], 1e-4 * whole[i + 2]) << i;
  }
}

}  // namespace
}  // namespace trireme
