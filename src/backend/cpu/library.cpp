#include "backend/cpu/library.h"

namespace trireme::cpu {

const dnnl::engine& library_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
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

}  // namespace trireme::cpu
