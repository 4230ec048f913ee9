// Shared by the kernels of this folder: what a kernel is, and the table in which the device looks it up. Kernels know
// streams and memory of the CUDA runtime only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include "trireme/device.h"
#include "trireme/op.h"

namespace trireme::cuda {

/// A kernel for operands of known types: enqueues itself for operands at these addresses.
struct Launch {
  std::function<void(const KernelMemory&, cudaStream_t)> enqueue{};
  Bytes workspace{};
};

/// Nothing if there is no kernel for these types or shapes.
using Prepare = std::optional<Launch> (*)(const KernelRequest&);

struct KernelRow {
  std::string_view op;
  Prepare prepare = nullptr;
};

[[nodiscard]] inline Signature signature_of(const KernelRequest& request) {
  return {.op = request.op, .inputs = request.inputs, .attributes = &request.attributes};
}

/// Throws Error(System): "cuda: what: the runtime's message".
void check(cudaError_t status, std::string_view what);

// The tables, a source file each.
[[nodiscard]] std::span<const KernelRow> attention_kernels();
[[nodiscard]] std::span<const KernelRow> cudnn_kernels();
[[nodiscard]] std::span<const KernelRow> elementwise_kernels();
[[nodiscard]] std::span<const KernelRow> embedding_kernels();
[[nodiscard]] std::span<const KernelRow> expert_kernels();
[[nodiscard]] std::span<const KernelRow> loss_kernels();
[[nodiscard]] std::span<const KernelRow> norm_kernels();
[[nodiscard]] std::span<const KernelRow> optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> product_kernels();
[[nodiscard]] std::span<const KernelRow> random_kernels();
[[nodiscard]] std::span<const KernelRow> reduction_kernels();
[[nodiscard]] std::span<const KernelRow> shape_kernels();
[[nodiscard]] std::span<const KernelRow> strided_product_kernels();

}  // namespace trireme::cuda
