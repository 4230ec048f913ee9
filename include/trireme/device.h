// Device: runs kernels and exchanges, and owns memory. Higher layers reach a backend only through this interface.
// docs/devices.md has the contract between the runtime and a device.
//
// A device and the objects it creates are used by one thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trireme/exchange.h"
#include "trireme/fusions.h"
#include "trireme/kernel.h"
#include "trireme/stream.h"
#include "trireme/units.h"

namespace trireme {

/// Device memory, freed on destruction. The host must not access it: its address is for the device's kernels and copies.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] virtual std::byte* data() = 0;
};

/// Host memory that a device can copy to and from asynchronously; pinned where that matters.
class HostMemory {
 public:
  HostMemory() = default;
  virtual ~HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;
};

struct EventOptions {
  bool timed = false;  ///< for Event::since()
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Identifies this device on its machine, for messages: "cpu, 2 threads", "cuda:1, NVIDIA H200".
  [[nodiscard]] virtual std::string name() const = 0;
  /// The share of its machine's cores that it computes on; 0: it has its own hardware.
  [[nodiscard]] virtual double machine_share() const { return 0; }
  /// Whether work is done when the call that enqueues it returns, so that inputs need no staging buffer.
  [[nodiscard]] virtual bool runs_inline() const { return false; }
  /// Every buffer's offset in an arena is a multiple of this.
  [[nodiscard]] virtual Bytes alignment() const { return {64}; }
  /// The fusions that run faster on this device; none by default.
  [[nodiscard]] virtual Fusions fusions() const { return {}; }
  /// The device's free memory; nullopt if it uses host memory.
  [[nodiscard]] virtual std::optional<Bytes> free_memory() const { return std::nullopt; }

  /// Zero-initialized. Throws Error(System) with the device and the amount if there is not enough.
  [[nodiscard]] virtual std::unique_ptr<DeviceMemory> allocate(Bytes bytes) = 0;
  [[nodiscard]] virtual std::unique_ptr<HostMemory> allocate_host(Bytes bytes) = 0;

  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event(const EventOptions& options = {}) = 0;

  /// Throws Error(Usage) naming the op and the types if the device does not support it.
  [[nodiscard]] virtual std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) = 0;
  /// Prepares a communication op. The default packs with this device's slice and concat kernels, copies to host memory
  /// and leaves the rest to `comm`.
  [[nodiscard]] virtual std::unique_ptr<PreparedExchange> prepare_exchange(
      const KernelRequest& request);

  /// Collective over the communicator, which must outlive the result. Null, the default: exchanges are staged through
  /// host memory.
  [[nodiscard]] virtual std::shared_ptr<ExchangeSession> connect(Communicator& communicator);

  /// Records the kernels that `enqueue` enqueues on the stream, without running them. They have run before, so they are
  /// warm. Null if the device does not record; kernels are then enqueued one by one.
  [[nodiscard]] virtual std::unique_ptr<Recording> record(Stream& stream,
                                                          const std::function<void()>& enqueue);
};

/// A rank's place among those that share its machine.
struct RankOnHost {
  int rank = 0;
  int ranks = 1;
};
/// Creates the device of a rank. See cpu_devices() and cuda_devices().
using DeviceFactory = std::function<std::unique_ptr<Device>(const RankOnHost& place)>;

}  // namespace trireme
