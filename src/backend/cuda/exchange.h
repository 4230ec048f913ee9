// Exchanges of a CUDA device: collectives by NCCL or cudaIpc where ranks are connected by one of them, everything else
// staged through host memory. Messages between two ranks always are: those of NCCL would wait for each other in the order
// of a stream, which pipelines do not have.
#pragma once

#include <memory>

#include "trireme/cuda_device.h"
#include "trireme/device.h"

namespace trireme::cuda {

/// Collective. Null if all exchanges go through host memory. Throws Error if the ranks cannot exchange as requested.
[[nodiscard]] std::shared_ptr<ExchangeSession> connect_ranks(Device& device,
                                                             Communicator& communicator,
                                                             CudaExchange requested);

/// By the context's session if it has one, else staged.
[[nodiscard]] std::unique_ptr<PreparedExchange> prepare_exchange(const KernelRequest& request,
                                                                 Device& device);

}  // namespace trireme::cuda
