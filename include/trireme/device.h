// Device: what runs kernels and holds memory. Everything above reaches a backend only through this.
//
// One thread at a time uses a device and what it made.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/graph.h"
#include "trireme/units.h"

namespace trireme {

/// What a kernel is asked for: an op, its constants, and its operands' types.
struct KernelRequest {
  const Op* op = nullptr;
  Attributes attributes{};
  std::vector<TensorType> inputs{};
  std::vector<TensorType> outputs{};
};

/// Where its operands are. They stay there as long as the kernel.
struct KernelMemory {
  std::vector<const std::byte*> inputs{};
  std::vector<std::byte*> outputs{};
  std::byte* workspace = nullptr;
};

/// An op made ready for operands at fixed places.
class Kernel {
 public:
  Kernel() = default;
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  /// Does it, or begins it on a device with a stream of its own. Allocates nothing.
  virtual void run() = 0;
};

/// A kernel before its operands have places: how much scratch it needs while it runs.
class PreparedKernel {
 public:
  PreparedKernel() = default;
  virtual ~PreparedKernel() = default;
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;
  [[nodiscard]] virtual Bytes workspace() const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Kernel> bind(const KernelMemory& memory) = 0;
};

/// Memory of a device. Given back with it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] virtual std::byte* data() = 0;
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  /// The share of its machine's cores that it computes on; 0: it has hardware of its own.
  [[nodiscard]] virtual double machine_share() const { return 0; }
  /// Zero when made. Throws Error(System) with the amount if there is not enough.
  [[nodiscard]] virtual std::unique_ptr<DeviceMemory> allocate(Bytes bytes) = 0;
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  /// Throws Error(Usage) that names the op and the types if the device cannot do it.
  [[nodiscard]] virtual std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) = 0;
  /// Returns when all that was begun is done.
  virtual void synchronize() = 0;
};

}  // namespace trireme
