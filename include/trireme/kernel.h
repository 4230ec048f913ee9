// Kernel: an op on a device. A device prepares it for types, then binds it to addresses, once; a step only enqueues it.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "trireme/graph.h"
#include "trireme/units.h"

namespace trireme {

class Stream;

/// A request for a kernel: an op, its constants, and its operands' types.
struct KernelRequest {
  const Op* op = nullptr;
  Attributes attributes{};
  std::vector<TensorType> inputs{};
  std::vector<TensorType> outputs{};
};

/// The addresses of its operands, fixed for the kernel's lifetime.
struct KernelMemory {
  std::vector<const std::byte*> inputs{};
  std::vector<std::byte*> outputs{};
  std::byte* workspace = nullptr;
};

/// An op prepared for operands at fixed addresses.
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  /// Enqueues it on a stream of its device. Does not allocate.
  virtual void enqueue(Stream& stream) = 0;
};

/// A kernel before its operands have addresses: knows how much scratch memory it needs to run.
class PreparedKernel {
 public:
  PreparedKernel() = default;
  virtual ~PreparedKernel() = default;
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;
  [[nodiscard]] virtual Bytes workspace() const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Kernel> bind(const KernelMemory& memory) = 0;
};

}  // namespace trireme
