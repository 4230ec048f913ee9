// The option --device.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/device.h"

namespace trireme::cli {

/// The factory of "auto", "cpu", "cuda" or "cuda:N". Throws Error(Usage) if there is no such device.
[[nodiscard]] std::function<std::unique_ptr<Device>(int ranks)> devices_named(
    const std::string& name, int threads);

}  // namespace trireme::cli
