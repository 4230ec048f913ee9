// The defaults of Device: exchanges staged through host memory, no recordings.
#include "runtime/host_exchange.h"
#include "trireme/device.h"

namespace trireme {

std::unique_ptr<PreparedExchange> Device::prepare_exchange(const KernelRequest& request) {
  return runtime::prepare_staged(request, *this);
}

std::shared_ptr<ExchangeSession> Device::connect(Communicator&) {
  return nullptr;
}

std::unique_ptr<Recording> Device::record(Stream&, const std::function<void()>&) {
  return nullptr;
}

}  // namespace trireme
