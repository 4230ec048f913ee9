// Exchanges with NCCL: collectives along the axes of a mesh, each on its own stream. Messages between two ranks are
// staged through host memory: NCCL's would wait for each other in the order of a stream, which pipelines do not have.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "trireme/cuda_device.h"
#include "trireme/device.h"

namespace trireme::cuda {

/// Collective. Null if exchanges go through host memory. Throws Error(Usage) if NCCL was requested and a rank does not
/// have it.
[[nodiscard]] std::shared_ptr<ExchangeSession> connect_nccl(Device& device,
                                                            Communicator& communicator,
                                                            CudaExchange exchange);

/// By the context's session if that is NCCL's, else staged.
[[nodiscard]] std::unique_ptr<PreparedExchange> prepare_nccl(const KernelRequest& request,
                                                             Device& device);

[[nodiscard]] CudaLibrary nccl_fact();

/// The underlying stream, for streams of a CUDA device; earlier work has been enqueued on it.
[[nodiscard]] cudaStream_t handle_of(Stream& stream);

}  // namespace trireme::cuda
