#include <iterator>

#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {

std::span<const KernelRow> loop_kernels() {
  static const std::vector<KernelRow> kRows = [] {
    std::vector<KernelRow> all;
    for (const auto& some :
         {attention_kernels(), elementwise_kernels(), embedding_kernels(), loss_kernels(),
          norm_kernels(), optimizer_kernels(), product_kernels(), random_kernels(), reduce_kernels(), rope_kernels()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return kRows;
}

}  // namespace trireme::cpu::TRIREME_ISA
