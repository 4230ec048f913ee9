// Replaces all other files here for an instruction set that this build omits (TRIREME_CPU_LOOPS).
#include "backend/cpu/kernel.h"

namespace trireme::cpu::TRIREME_ISA {

std::span<const KernelRow> loop_kernels() {
  return {};
}

}  // namespace trireme::cpu::TRIREME_ISA
