// The files of this folder, each with the kernels of some ops.
#pragma once

#include <vector>

#include "backend/cpu/kernel.h"

namespace trireme::cpu::TRIREME_ISA {

[[nodiscard]] std::vector<KernelRow> elementwise_kernels();
[[nodiscard]] std::vector<KernelRow> norm_kernels();
[[nodiscard]] std::vector<KernelRow> reduce_kernels();

}  // namespace trireme::cpu::TRIREME_ISA
