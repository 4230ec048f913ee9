// The option --device.
#pragma once

#include <string>

#include "trireme/device.h"

namespace trireme::cli {

/// What to compute on.
struct DeviceOptions {
  std::string name = "auto";  ///< "cpu", "cuda" (ranks spread over all GPUs), "cuda:N", or "auto"
  int threads = 0;            ///< of a CPU
  std::string exchange = "auto";  ///< the option --gpu-exchange
  bool deterministic = false;     ///< the same bits in every run; a CPU's always are
};

/// The factory of these. Throws Error(Usage) if there is no such device.
[[nodiscard]] DeviceFactory devices_named(const DeviceOptions& options);

}  // namespace trireme::cli
