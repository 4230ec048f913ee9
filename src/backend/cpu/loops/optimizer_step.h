// Shared by the kernels of optimizers: their scalar operands, the types of parameters and gradients, skipped steps.
#pragma once

#include <cmath>
#include <cstring>

#include "backend/cpu/loops/elements.h"

namespace trireme::cpu::TRIREME_ISA {

/// In muon.cpp.
[[nodiscard]] std::unique_ptr<PreparedKernel> muon_step(const KernelRequest& request);

namespace {

inline double scalar(const KernelMemory& memory, std::size_t k, DType dtype) {
  return dtype == DType::F64 ? *input<double>(memory, k)
                             : static_cast<double>(*input<float>(memory, k));
}

inline void keep_old(const KernelMemory& memory, std::size_t in, std::size_t out,
                     std::int64_t bytes) {
  if (memory.outputs[out] != memory.inputs[in]) {
    std::memcpy(memory.outputs[out], memory.inputs[in], bytes);
  }
}

/// If this g_scale skips the step, copies n elements of the parameter and of its states, and returns true.
template <class P>
bool keeps_old(const KernelMemory& memory, double g_scale, std::int64_t n, std::size_t states) {
  if (g_scale != 0 && std::isfinite(g_scale)) {
    return false;
  }
  keep_old(memory, 0, 0, n * static_cast<std::int64_t>(sizeof(P)));
  for (std::size_t k = 0; k < states; ++k) {
    keep_old(memory, k + 2, k + 1, n * static_cast<std::int64_t>(sizeof(Wide<P>)));
  }
  return true;
}

/// Calls f(P{}, G{}) for the types of parameter and gradient. Gradients have the parameter's type or f32; for f32
/// parameters, any type but f64.
template <class F>
std::unique_ptr<PreparedKernel> for_parameter(const KernelRequest& request, F f) {
  const DType gradient = request.inputs[1].dtype;
  const bool same = gradient == request.inputs[0].dtype;
  return for_float(request.inputs[0].dtype, [&]<class P>(P p) {
    if constexpr (std::is_same_v<P, float>) {
      if (gradient == DType::BF16 || gradient == DType::F16) {
        return gradient == DType::BF16 ? f(p, BFloat16{}) : f(p, Float16{});
      }
    }
    return same ? f(p, p) : f(p, float{});
  });
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
