// Exchanges by `comm`, which moves host memory. One thread at a time.
#pragma once

#include <memory>

#include "trireme/device.h"

namespace trireme::runtime {

/// For a device with inline streams in the host's memory: `comm` works on the operands where they are. The device must
/// outlive the result. Throws Error(Usage) if the op does not communicate.
[[nodiscard]] std::unique_ptr<PreparedExchange> prepare_in_place(const KernelRequest& request,
                                                                 Device& device);

/// For any device: operands are copied to host memory and results back, on the context's stream, while kernels run.
/// Steps of an exchange, with the stream that runs them:
///
///   start()    compute:  …kernels so far…
///              exchange: wait for them; pack; copy the source to host memory
///              host:     start the operation of `comm` when that is done (StagingQueue)
///   finish()   host:     wait for the operation
///              exchange: wait for the kernels before start(), if not done; copy the target to the device; unpack
///              compute:  wait for that; …kernels from here on…
[[nodiscard]] std::unique_ptr<PreparedExchange> prepare_staged(const KernelRequest& request,
                                                               Device& device);

}  // namespace trireme::runtime
