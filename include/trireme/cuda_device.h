// The CUDA device. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/device.h"

namespace trireme {

/// The number of CUDA devices of this machine. Does not initialize the driver, so that a process may still fork.
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

/// How to choose among a library's algorithms: by timing them, or so that results are the same bits in every run (an
/// algorithm that an earlier run timed and stored, else the first).
enum class AlgorithmChoice : std::uint8_t { Fastest, Reproducible };
[[nodiscard]] std::string_view to_text(AlgorithmChoice choice);

/// Caches the fastest algorithms for matrix products and attention in this file, by GPU and library version, so that
/// later runs need not time them again. For all devices of the process; call it before creating the first. "": no file,
/// the default.
void keep_cuda_algorithms(const std::string& path,
                          AlgorithmChoice choice = AlgorithmChoice::Fastest);

/// How ranks exchange device memory: by NCCL, through memory that their processes share on the GPU (cudaIpc; on one host),
/// or through host memory. Auto: by NCCL if every rank has it and its own GPU, else through host memory.
enum class CudaExchange : std::uint8_t { Auto, Nccl, Ipc, Host };
[[nodiscard]] std::string_view to_text(CudaExchange exchange);
/// Throws Error(Usage) that lists the names: "auto", "nccl", "ipc", "host".
[[nodiscard]] CudaExchange parse_cuda_exchange(std::string_view text);

/// Throws Error(System) if there is no such device.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int number = 0,
                                                       CudaExchange exchange = CudaExchange::Auto);

/// Creates the devices of ranks: all on the device with this number, or (if absent) distributed over the machine's
/// devices.
[[nodiscard]] DeviceFactory cuda_devices(std::optional<int> number = {},
                                         CudaExchange exchange = CudaExchange::Auto);

}  // namespace trireme
