// Every op on the CPU against its reference, over the table of cases, in every element type.
#include <gtest/gtest.h>

#include "backend/check_kernel.h"
#include "backend/cpu/kernel.h"
#include "backend/large_cases.h"
#include "expect_error.h"
#include "graph/op_cases.h"
#include "trireme/cpu_device.h"
#include "trireme/error.h"
#include "trireme/execution.h"

namespace trireme::testing {
namespace {

class CpuKernels : public ::testing::TestWithParam<DType> {};

TEST_P(CpuKernels, MatchReferences) {
  for (const int threads : {1, 2}) {
    const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .pinned = false});
    for (const OpCase& c : op_cases()) {
      check_kernel(c, GetParam(), graph_of(c, GetParam()), *device);
      check_kernel(c, GetParam(), graph_with_copies(c, GetParam()), *device);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST_P(CpuKernels, MatchReferencesBeyondBlockSizes) {
  for (const int threads : {1, 2, 3}) {
    const std::unique_ptr<Device> device = make_cpu_device({.threads = threads, .pinned = false});
    for (const OpCase& c : large_cases()) {
      check_kernel(c, GetParam(), graph_of(c, GetParam()), *device);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

/// The reference, which takes no scratch memory, would compute them in f64 on one thread, and allocate in the step.
TEST_P(CpuKernels, CoverEveryProductAndTableLookup) {
  const std::unique_ptr<Device> device = make_cpu_device({.threads = 2, .pinned = false});
  std::vector<OpCase> cases;
  for (const char* equation : {"bhtd,hdcz->bzct", "xhtd,hdcz->zctx", "tdhx,czhd->tzcx"}) {
    cases.push_back(
        {"einsum", {{{2, 3, 4, 5}}, {{3, 5, 6, 2}}}, {{"equation", std::string(equation)}}});
  }
  cases[2].inputs = {{{2, 5, 3, 4}}, {{6, 2, 3, 5}}};
  cases.push_back({"embedding_backward",
                   {{{9, 70}}, {{9}, 0, 4, 0, Operand::Kind::Whole}},
                   {{"rows", std::int64_t{5}}}});
  for (const OpCase& c : cases) {
    const bool plain = c.op == "embedding_backward" && size_of(GetParam()).count > 2;
    const Program program = make_program(graph_of(c, GetParam()));
    EXPECT_EQ(workspace_of(program, *device).count > 0, !plain) << describe(c);
    check_kernel(c, GetParam(), graph_of(c, GetParam()), *device);
  }
}

/// Ops without a kernel run by the reference, always: a new op needs a kernel, or a line here and in reference.cpp.
TEST(ReferenceKernels, AreOnlyKernelsForTheseOps) {
  std::vector<std::string_view> without;
  for (const Op* op : all_ops()) {
    if (!op->is_view && !op->communicates && !cpu::has_kernel(op->name)) {
      without.push_back(op->name);
    }
  }
  EXPECT_EQ(without, (std::vector<std::string_view>{
                         "adamw_rounded", "attention_packed", "attention_packed_backward",
                         "classifier", "einsum_add", "einsum_bias", "einsum_bias_add",
                         "einsum_bias_gelu", "einsum_gelu_backward", "layer_norm_backward_add",
                         "orthonormal", "rms_norm_backward_add"}));
  for (const cpu::ReferenceUse& use : cpu::reference_uses()) {
    ASSERT_NE(find_op(use.op), nullptr) << use.op;
    EXPECT_EQ(use.when.starts_with("always"), !cpu::has_kernel(use.op)) << use.op;
  }
}

TEST(ReferenceKernels, AreUnusedForOtherOps) {
  const std::vector<TensorType> x{{DType::F32, Shape{2}}, {DType::F32, Shape{2}}};
  const KernelRequest request{
      .op = find_op("add"), .attributes = {}, .inputs = x, .outputs = {x[0]}};
  EXPECT_EQ(error_message(ErrorKind::Usage, [&] { (void)cpu::reference_kernel(request); }),
            "the CPU has no kernel for add(f32[2], f32[2])");
}

INSTANTIATE_TEST_SUITE_P(Types, CpuKernels,
                         ::testing::Values(DType::F32, DType::F64, DType::BF16, DType::F16),
                         [](const auto& tested) { return std::string(to_text(tested.param)); });

}  // namespace
}  // namespace trireme::testing
