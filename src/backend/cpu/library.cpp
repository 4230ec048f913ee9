#include "backend/cpu/library.h"

#include <array>

namespace trireme::cpu {

const dnnl::engine& library_engine() {
  static const dnnl::engine engine = [] {
    // Without AMX: oneDNN 2.6's bf16 products with it end in SIGILL (at tilezero, on a Sapphire Rapids under Linux 6.18
    // that grants the tile state). This overrides the variable ONEDNN_MAX_CPU_ISA.
    (void)dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& library_stream() {
  thread_local dnnl::stream stream(library_engine());
  return stream;
}

std::optional<dnnl::memory::data_type> library_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return dnnl::memory::data_type::f32;
    case DType::BF16:
      return dnnl::memory::data_type::bf16;
    default:
      return std::nullopt;
  }
}

std::span<const KernelRow> library_kernels() {
  static constexpr std::array kRows{
      KernelRow{"einsum", library_einsum}, KernelRow{"conv2d", library_conv2d},
      KernelRow{"conv2d_backward_input", library_conv2d_backward_input},
      KernelRow{"conv2d_backward_weight", library_conv2d_backward_weight}};
  return kRows;
}

}  // namespace trireme::cpu
