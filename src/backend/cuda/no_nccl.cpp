// For builds without NCCL's header.
#include "backend/cuda/nccl.h"
#include "runtime/host_exchange.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr const char* kProblem =
    "this program was built without NCCL: install its header (nccl.h) and build again";

}  // namespace

std::shared_ptr<ExchangeSession> connect_nccl(Device& /*device*/, Communicator& /*communicator*/,
                                              CudaExchange exchange) {
  if (exchange == CudaExchange::Nccl) {
    throw Error(ErrorKind::Usage, kProblem);
  }
  return nullptr;
}

std::unique_ptr<PreparedExchange> prepare_nccl(const KernelRequest& request, Device& device) {
  return runtime::prepare_staged(request, device);
}

CudaLibrary nccl_fact() {
  return {.name = "NCCL", .version = {}, .problem = kProblem};
}

}  // namespace trireme::cuda
