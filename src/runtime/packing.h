// Packing: the kernels that pack a tensor's blocks contiguously, and unpack them. A block is packed by the device's
// `slice`, all of them are unpacked by its `concat`: a backend needs no kernels only for communication.
//
// One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/exchange_layout.h"
#include "trireme/device.h"

namespace trireme::runtime {

/// Kernels that run in sequence.
class KernelSequence {
 public:
  void add(std::unique_ptr<Kernel> kernel) { kernels_.push_back(std::move(kernel)); }
  void enqueue(Stream& stream) {
    for (const auto& kernel : kernels_) {
      kernel->enqueue(stream);
    }
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

class Packing {
 public:
  /// Prepares the kernels of both directions that the layout needs.
  Packing(const ExchangeLayout& layout, Device& device);

  [[nodiscard]] Bytes workspace() const;
  /// From a tensor to its blocks; nothing if the layout has none.
  [[nodiscard]] KernelSequence pack(const std::byte* whole, std::byte* blocks,
                                    std::byte* workspace);
  /// From the blocks to the tensor.
  [[nodiscard]] KernelSequence unpack(const std::byte* blocks, std::byte* whole,
                                      std::byte* workspace);

 private:
  struct Slice {
    std::unique_ptr<PreparedKernel> kernel;
    std::int64_t offset = 0;  ///< of the block among the blocks, in bytes
  };
  std::vector<Slice> slices_;
  std::unique_ptr<PreparedKernel> concat_;
  std::vector<std::int64_t> offsets_;  ///< of the blocks that concat_ reads
};

}  // namespace trireme::runtime
