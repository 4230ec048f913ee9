// How the fastest of several algorithms is found: each is timed on this device once, and a file keeps the answer for later
// runs. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include "backend/cuda/algorithm_file.h"
#include "backend/cuda/kernel.h"

namespace trireme::cuda {

/// Device memory to time on. It holds random numbers: algorithms run faster on zeros than on data. They are at most 2 in
/// magnitude in every floating-point type.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// The current device's, such as "NVIDIA H200".
[[nodiscard]] std::string device_name();

/// Whether algorithms are timed; otherwise one that is not kept is the library's first proposal.
[[nodiscard]] bool times_algorithms();
[[nodiscard]] std::optional<AlgorithmBits> kept_algorithm(const std::string& key);
void keep_algorithm(const std::string& key, const AlgorithmBits& bits);

/// Enqueues an algorithm; returns whether that worked.
using RunAlgorithm = std::function<bool(std::size_t number, cudaStream_t stream)>;
/// The number of the fastest that works; 0 if none does.
[[nodiscard]] std::size_t fastest_of(std::size_t count, const RunAlgorithm& run);

/// The same for kernels, each on its own operands and workspace.
[[nodiscard]] std::size_t fastest_launch(std::span<const Launch> launches,
                                         const KernelRequest& request);

}  // namespace trireme::cuda
