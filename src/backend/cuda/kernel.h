// Shared by the kernels of this folder: the kernel types, and the table in which the device looks kernels up. Kernels
// know streams and memory of the CUDA runtime only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include "trireme/device.h"
#include "trireme/op.h"

namespace trireme::cuda {

/// One of several kernels that run together: its addresses, and the data that its op has prepared.
struct BatchItem {
  const KernelMemory* memory = nullptr;
  const void* prepared = nullptr;
};

/// A kernel for operands of known types: enqueues itself for operands at these addresses.
struct Launch {
  std::function<void(const KernelMemory&, cudaStream_t)> enqueue{};
  Bytes workspace{};
  /// Optional: enqueues several independent kernels of the same function together, in any order. They share their
  /// workspace.
  void (*enqueue_batch)(std::span<const BatchItem>, cudaStream_t) = nullptr;
  std::shared_ptr<const void> prepared{};  ///< for it
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

/// Fills memory of the device with zeros and waits: cudaMemset() returns before, and our streams do not wait for it.
void clear_memory(void* data, std::size_t bytes);

/// The epilogue of a product if cuBLASLt does not support it: see graph/ops/products.cpp. nullptr: absent.
struct Epilogue {
  const std::byte* bias = nullptr;
  std::int64_t period = 1;      ///< elements of the bias
  std::byte* before = nullptr;  ///< where gelu's operand is kept; then the result is its gelu
  const std::byte* slope_at = nullptr;  ///< the result is multiplied by gelu' of these
};
/// On elements in place. The type is a floating-point one.
void enqueue_epilogue(DType dtype, std::byte* y, std::int64_t count, const Epilogue& epilogue,
                      cudaStream_t stream);

// The tables, a source file each.
[[nodiscard]] std::span<const KernelRow> adamw_kernels();
[[nodiscard]] std::span<const KernelRow> attention_kernels();
[[nodiscard]] std::span<const KernelRow> cast_kernels();
[[nodiscard]] std::span<const KernelRow> classifier_kernels();
[[nodiscard]] std::span<const KernelRow> cudnn_kernels();
[[nodiscard]] std::span<const KernelRow> elementwise_kernels();
[[nodiscard]] std::span<const KernelRow> embedding_kernels();
[[nodiscard]] std::span<const KernelRow> expert_kernels();
[[nodiscard]] std::span<const KernelRow> loss_kernels();
[[nodiscard]] std::span<const KernelRow> norm_backward_kernels();
[[nodiscard]] std::span<const KernelRow> norm_kernels();
[[nodiscard]] std::span<const KernelRow> optimizer_kernels();
[[nodiscard]] std::span<const KernelRow> product_kernels();
[[nodiscard]] std::span<const KernelRow> random_kernels();
[[nodiscard]] std::span<const KernelRow> reduction_kernels();
[[nodiscard]] std::span<const KernelRow> shape_kernels();
[[nodiscard]] std::span<const KernelRow> strided_product_kernels();

}  // namespace trireme::cuda
