// The CUDA device. In a build without CUDA there are no such devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device.h"

namespace trireme {

/// How many this machine has. Does not initialize the driver, so that a process may still fork.
[[nodiscard]] int cuda_device_count();

/// Whether this program was built with CUDA.
[[nodiscard]] bool has_cuda();

/// A library that is opened at run time.
struct CudaLibrary {
  std::string name{};
  std::string version{};
  std::string problem{};  ///< why it cannot be used, and what to do; else empty
};

struct CudaFacts {
  std::string name{};  ///< "NVIDIA H200"
  Bytes memory{};
  Bytes free{};
  std::vector<CudaLibrary> libraries{};
};

/// Initializes the driver. Throws Error(System) if there is no such device.
[[nodiscard]] CudaFacts cuda_facts(int number);

/// Keeps which algorithms matrix products run fastest by in this file, by GPU and library version, so that later runs need
/// not time them again. For all devices of the process; call it before the first is made. "": nowhere, the default.
void keep_cuda_algorithms(const std::string& path);

/// Throws Error(System) if there is no such device.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int number = 0);

/// Makes the device of a run on one rank. Throws Error(Usage) for more: they cannot share it yet.
[[nodiscard]] std::function<std::unique_ptr<Device>(int ranks)> cuda_devices(int number = 0);

}  // namespace trireme
