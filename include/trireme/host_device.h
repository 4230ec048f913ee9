// HostDevice: the common base of devices whose kernels run on the calling thread in host memory. Streams are inline:
// work is done when the call that enqueues it returns, and events are always done.
#pragma once

#include <memory>

#include "trireme/device.h"

namespace trireme {

class HostDevice : public Device {
 public:
  [[nodiscard]] bool runs_inline() const override { return true; }
  /// Dedicated pages, huge ones if available.
  [[nodiscard]] std::unique_ptr<DeviceMemory> allocate(Bytes bytes) override;
  [[nodiscard]] std::unique_ptr<HostMemory> allocate_host(Bytes bytes) override;
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override;
  [[nodiscard]] std::unique_ptr<Event> make_event(const EventOptions& options = {}) override;
  /// `comm` works on the operands in place.
  [[nodiscard]] std::unique_ptr<PreparedExchange> prepare_exchange(
      const KernelRequest& request) override;
};

}  // namespace trireme
