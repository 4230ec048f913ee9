// Which exchange ranks on GPUs use.
#include "backend/cuda/exchange_choice.h"

#include <string>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr RanksFacts kOwnGpus{};
constexpr RanksFacts kSharedGpu{.have_nccl = true, .own_gpus = false, .share_a_host = true};
constexpr RanksFacts kSharedGpusOfHosts{
    .have_nccl = true, .own_gpus = false, .share_a_host = false};
constexpr RanksFacts kWithoutNccl{.have_nccl = false, .own_gpus = true, .share_a_host = true};
constexpr RanksFacts kHostsWithoutNccl{.have_nccl = false, .own_gpus = true, .share_a_host = false};

TEST(ExchangeChoice, AutoChoosesNcclWhereEachRankHasItsOwnGpu) {
  EXPECT_EQ(choose_exchange(CudaExchange::Auto, kOwnGpus), CudaExchange::Nccl);
  EXPECT_EQ(choose_exchange(CudaExchange::Auto, kSharedGpu), CudaExchange::Host);
  EXPECT_EQ(choose_exchange(CudaExchange::Auto, kWithoutNccl), CudaExchange::Host);
  EXPECT_EQ(choose_exchange(CudaExchange::Auto, kSharedGpusOfHosts), CudaExchange::Host);
  EXPECT_EQ(choose_exchange(CudaExchange::Auto, kHostsWithoutNccl), CudaExchange::Host);
}

TEST(ExchangeChoice, RequestsAreKept) {
  EXPECT_EQ(choose_exchange(CudaExchange::Nccl, kSharedGpu), CudaExchange::Nccl);
  EXPECT_EQ(choose_exchange(CudaExchange::Ipc, kOwnGpus), CudaExchange::Ipc);
  EXPECT_EQ(choose_exchange(CudaExchange::Host, kOwnGpus), CudaExchange::Host);
}

std::string refusal(CudaExchange requested, const RanksFacts& facts) {
  return error_message(ErrorKind::Usage, [&] { (void)choose_exchange(requested, facts); });
}

TEST(ExchangeChoice, ImpossibleRequestsSayWhatToDo) {
  EXPECT_EQ(refusal(CudaExchange::Nccl, kWithoutNccl),
            "nccl: not every rank has it (see trireme devices); use --gpu-exchange host");
  EXPECT_EQ(refusal(CudaExchange::Ipc, kSharedGpusOfHosts),
            "cudaIpc: the ranks are on several hosts; use --gpu-exchange nccl or host");
}

}  // namespace
}  // namespace trireme::cuda
