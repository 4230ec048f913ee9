// The files of this folder, each with the kernels of some ops.
#pragma once

#include <vector>

#include "backend/cpu/kernel.h"

namespace trireme::cpu::TRIREME_ISA {

[[nodiscard]] std::vector<KernelRow> attention_kernels();
[[nodiscard]] std::vector<KernelRow> cache_kernels();
[[nodiscard]] std::vector<KernelRow> choice_kernels();
[[nodiscard]] std::vector<KernelRow> conv_kernels();
[[nodiscard]] std::vector<KernelRow> elementwise_kernels();
[[nodiscard]] std::vector<KernelRow> embedding_kernels();
[[nodiscard]] std::vector<KernelRow> expert_kernels();
[[nodiscard]] std::vector<KernelRow> fused_kernels();
[[nodiscard]] std::vector<KernelRow> loss_kernels();
[[nodiscard]] std::vector<KernelRow> norm_kernels();
[[nodiscard]] std::vector<KernelRow> optimizer_kernels();
[[nodiscard]] std::vector<KernelRow> pack_kernels();
[[nodiscard]] std::vector<KernelRow> pool_kernels();
[[nodiscard]] std::vector<KernelRow> product_kernels();
[[nodiscard]] std::vector<KernelRow> random_kernels();
[[nodiscard]] std::vector<KernelRow> reduce_kernels();
[[nodiscard]] std::vector<KernelRow> rope_kernels();
[[nodiscard]] std::vector<KernelRow> row_product_kernels();
[[nodiscard]] std::vector<KernelRow> shape_kernels();

}  // namespace trireme::cpu::TRIREME_ISA
