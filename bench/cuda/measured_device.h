// A device that behaves as another one, and measures how its recorded steps are enqueued and run: what the host spends, and
// how long the device has nothing to do between two steps.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device.h"

namespace trireme {

/// A recorded step: when the host enqueued it, and events around it on the device.
struct EnqueuedStep {
  std::chrono::steady_clock::time_point enqueued{};
  std::unique_ptr<Event> begin{};
  std::unique_ptr<Event> end{};
};

class MeasuredDevice : public Device {
 public:
  explicit MeasuredDevice(Device& device) : device_(device) {}

  /// Those of recordings that were enqueued since.
  void start() { steps_.clear(); }
  [[nodiscard]] const std::vector<EnqueuedStep>& steps() const { return steps_; }

  [[nodiscard]] std::string name() const override { return device_.name(); }
  [[nodiscard]] Bytes alignment() const override { return device_.alignment(); }
  [[nodiscard]] Fusions fusions() const override { return device_.fusions(); }
  [[nodiscard]] std::optional<Bytes> free_memory() const override { return device_.free_memory(); }
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override {
    return device_.allocate(bytes);
  }
  [[nodiscard]] std::unique_ptr<HostMemory> allocate_host(Bytes bytes) override {
    return device_.allocate_host(bytes);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return device_.make_stream(); }
  [[nodiscard]] std::unique_ptr<Event> make_event(const EventOptions& options) override {
    return device_.make_event(options);
  }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) override {
    return device_.prepare(request);
  }
  [[nodiscard]] std::unique_ptr<Recording> record(Stream& stream,
                                                  const std::function<void()>& enqueue) override;

 private:
  Device& device_;  // outlives this, which belongs to the same benchmark
  std::vector<EnqueuedStep> steps_;
};

}  // namespace trireme
