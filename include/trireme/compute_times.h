// How long kernels take in a simulation, from the rates of a device. Callable from any thread.
#pragma once

#include <functional>
#include <string_view>

#include "trireme/cluster.h"
#include "trireme/kernel_rates.h"
#include "trireme/op.h"
#include "trireme/units.h"

namespace trireme::simulate {

/// How fast a device computes. The time of an instruction is `launch` plus the longer of its FLOPs and its bytes.
struct ComputeRates {
  FlopRate flops{};
  ByteRate memory{};  ///< 0: memory costs nothing
  Seconds launch{};
};

/// The time of a kernel that does this work, if nothing disturbs it.
using ComputeTime = std::function<Seconds(const Signature& kernel, const Work& work)>;
[[nodiscard]] ComputeTime compute_by(const ComputeRates& rates);

/// At the rates that training reaches: matrix products by their shapes, fused attention without what its mask makes
/// unnecessary, everything else by the bytes that it moves. No kernel is shorter than `floor`, in which the host launches
/// it.
[[nodiscard]] ComputeTime compute_by(const KernelRates& rates, Seconds floor);

/// The dense peak of the device for a type, and its memory bandwidth. Throws Error(Usage) naming what is unknown.
[[nodiscard]] ComputeRates peak_rates(const DeviceSpec& device, std::string_view dtype);

}  // namespace trireme::simulate
