// Device: runs kernels and owns memory. Higher layers reach a backend only through this interface.
//
// A device and the objects it creates are used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/graph.h"
#include "trireme/units.h"

namespace trireme {

/// Which kernel is requested: an op, its constants, and its operands' types.
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
  /// Runs the kernel, or enqueues it on a device with its own stream. Does not allocate.
  virtual void run() = 0;
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

/// Device memory, freed on destruction.
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
  /// The share of its machine's cores that it computes on; 0: it has its own hardware.
  [[nodiscard]] virtual double machine_share() const { return 0; }
  /// Zero-initialized. Throws Error(System) with the amount if there is not enough.
  [[nodiscard]] virtual std::unique_ptr<DeviceMemory> allocate(Bytes bytes) = 0;
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  /// Throws Error(Usage) naming the op and the types if the device does not support it.
  [[nodiscard]] virtual std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) = 0;
  /// Returns when all enqueued work is done.
  virtual void synchronize() = 0;
};

}  // namespace trireme
