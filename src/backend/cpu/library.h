// oneDNN: this process's engine and stream, its names for our types, and the kernels based on it.
#pragma once

#include <optional>

#include <dnnl.hpp>

#include "backend/cpu/kernel.h"
#include "trireme/tensor.h"

namespace trireme::cpu {

[[nodiscard]] const dnnl::engine& library_engine();
[[nodiscard]] dnnl::stream& library_stream();
/// Nothing for types that it does not multiply.
[[nodiscard]] std::optional<dnnl::memory::data_type> library_type(DType dtype);

// Its kernels.
[[nodiscard]] std::unique_ptr<PreparedKernel> library_einsum(const KernelRequest& request);
[[nodiscard]] std::unique_ptr<PreparedKernel> library_conv2d(const KernelRequest& request);
[[nodiscard]] std::unique_ptr<PreparedKernel> library_conv2d_backward_input(
    const KernelRequest& request);
[[nodiscard]] std::unique_ptr<PreparedKernel> library_conv2d_backward_weight(
    const KernelRequest& request);

}  // namespace trireme::cpu
