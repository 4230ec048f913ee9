// The option --device.
#pragma once

#include <string>

#include "trireme/device.h"

namespace trireme::cli {

/// The factory of "auto", "cpu", "cuda" (ranks spread over all GPUs) or "cuda:N". Throws Error(Usage) if there is no such
/// device. `exchange`: the option --gpu-exchange.
[[nodiscard]] DeviceFactory devices_named(const std::string& name, int threads,
                                          const std::string& exchange);

}  // namespace trireme::cli
