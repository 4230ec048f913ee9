#include <iterator>

#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {

std::span<const KernelRow> loop_kernels() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto& some :
         {attention_kernels(), cache_kernels(), choice_kernels(), conv_kernels(),
          elementwise_kernels(), embedding_kernels(), expert_kernels(), fused_kernels(),
          loss_kernels(), norm_kernels(), optimizer_kernels(), pack_kernels(), pool_kernels(),
          product_kernels(), random_kernels(), reduce_kernels(), rope_kernels(),
          row_product_kernels(), shape_kernels()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace trireme::cpu::TRIREME_ISA
