// CudaSession: connected ranks whose collectives stay on their devices. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/bound_operands.h"
#include "runtime/exchange_layout.h"
#include "trireme/device.h"

namespace trireme::cuda {

class CudaSession : public ExchangeSession {
 public:
  /// A collective along an axis of more than one rank. Throws Error(Usage) if it cannot do it.
  [[nodiscard]] virtual std::unique_ptr<Exchange> bind(const runtime::CollectiveCall& collective,
                                                       runtime::BoundOperands operands,
                                                       Device& device,
                                                       const ExchangeContext& context) = 0;
};

/// Collective: every rank's bytes, in order of the ranks; all ranks pass the same number.
[[nodiscard]] std::vector<std::byte> gathered(Group& group, std::span<const std::byte> mine);

/// The underlying stream, for streams of a CUDA device; earlier work has been enqueued on it.
[[nodiscard]] cudaStream_t handle_of(Stream& stream);

}  // namespace trireme::cuda
