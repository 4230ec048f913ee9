// The CUDA device. In a build without CUDA there are no such devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

/// How an algorithm of a library is chosen among those that it proposes: by timing them, or so that results are the same
/// bits in every run (of those, one that was timed and kept before, else the first).
enum class AlgorithmChoice : std::uint8_t { Fastest, Reproducible };

/// Keeps which algorithms matrix products and attention run fastest by in this file, by GPU and library version, so that
/// later runs need not time them again. For all devices of the process; call it before the first is made. "": nowhere, the
/// default.
void keep_cuda_algorithms(const std::string& path,
                          AlgorithmChoice choice = AlgorithmChoice::Fastest);

/// How ranks exchange device memory: by NCCL, or through host memory. Auto: by NCCL if all ranks have it and each its own
/// GPU.
enum class CudaExchange : std::uint8_t { Auto, Nccl, Host };
/// Throws Error(Usage) that lists the names: "auto", "nccl", "host".
[[nodiscard]] CudaExchange parse_cuda_exchange(std::string_view text);

/// Throws Error(System) if there is no such device.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int number = 0,
                                                       CudaExchange exchange = CudaExchange::Auto);

/// Makes the devices of ranks: all on the device with this number, or (none) spread over those of the machine.
[[nodiscard]] DeviceFactory cuda_devices(std::optional<int> number = {},
                                         CudaExchange exchange = CudaExchange::Auto);

}  // namespace trireme
