// Every op on a CUDA device against its reference, over the table of cases, in every element type. Skipped without a
// device.
#include <set>

#include <gtest/gtest.h>

#include "backend/check_kernel.h"
#include "backend/large_cases.h"
#include "expect_error.h"
#include "trireme/cuda_device.h"
#include "trireme/error.h"

namespace trireme::testing {
namespace {

/// Ops that the device refuses for every type: convolutions and pools, compression, Muon, and
/// generation with a cache.
const std::set<std::string, std::less<>> kRefused{"attention_at",
                                                  "avg_pool",
                                                  "avg_pool_backward",
                                                  "cache_write",
                                                  "conv2d",
                                                  "conv2d_backward_input",
                                                  "conv2d_backward_weight",
                                                  "largest",
                                                  "max_pool",
                                                  "max_pool_backward",
                                                  "muon",
                                                  "orthonormal",
                                                  "pack_bytes",
                                                  "pack_signs",
                                                  "pack_ternary",
                                                  "rope_at",
                                                  "sum_bytes",
                                                  "sum_signs",
                                                  "sum_ternary"};

class CudaKernels : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) {
      GTEST_SKIP() << "no CUDA device";
    }
    device_ = make_cuda_device();
  }
  /// Runs what the device has a kernel for.
  void check(const OpCase& c, const Graph& graph) {
    if (!kRefused.contains(c.op)) {
      SCOPED_TRACE(describe(c));
      try {
        check_kernel(c, GetParam(), graph, *device_);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  std::unique_ptr<Device> device_;
};

TEST_P(CudaKernels, MatchReferences) {
  for (const OpCase& c : op_cases()) {
    check(c, graph_of(c, GetParam()));
    check(c, graph_with_copies(c, GetParam()));
  }
}

TEST_P(CudaKernels, MatchReferencesBeyondBlockSizes) {
  for (const OpCase& c : large_cases()) {
    check(c, graph_of(c, GetParam()));
  }
}

TEST_P(CudaKernels, RejectUnsupportedOpsByName) {
  for (const OpCase& c : op_cases()) {
    if (kRefused.contains(c.op)) {
      SCOPED_TRACE(describe(c));
      expect_error(ErrorKind::Usage, "no kernel for " + c.op,
                   [&] { check_kernel(c, GetParam(), graph_of(c, GetParam()), *device_); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaKernels,
                         ::testing::Values(DType::F32, DType::F64, DType::BF16, DType::F16),
                         [](const auto& tested) { return std::string(to_text(tested.param)); });

}  // namespace
}  // namespace trireme::testing
