// The option --device.
#pragma once

#include "trireme/device.h"
#include "trireme/train_settings.h"

namespace trireme::cli {

/// The factory of the settings' device: "auto", "cpu", "cuda" (ranks spread over all GPUs) or "cuda:N". Throws
/// Error(Usage) if there is no such device.
[[nodiscard]] DeviceFactory devices_of(const TrainSettings& settings);

}  // namespace trireme::cli
