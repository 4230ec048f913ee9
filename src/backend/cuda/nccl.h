// Exchanges with NCCL: collectives along the axes of a mesh, each on its own stream.
#pragma once

#include <memory>

#include "backend/cuda/exchange_choice.h"
#include "backend/cuda/session.h"
#include "trireme/cuda_device.h"

namespace trireme::cuda {

/// Whether it can be opened.
[[nodiscard]] bool has_nccl();
[[nodiscard]] CudaLibrary nccl_fact();

/// Collective. Throws Error if this rank does not have NCCL.
[[nodiscard]] std::shared_ptr<CudaSession> connect_nccl(Device& device, Communicator& communicator,
                                                        const RanksFacts& facts);

}  // namespace trireme::cuda
