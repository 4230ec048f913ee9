// For builds without NCCL's header.
#include "backend/cuda/nccl.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr const char* kProblem =
    "this program was built without NCCL: install its header (nccl.h) and build again";

}  // namespace

bool has_nccl() {
  return false;
}

CudaLibrary nccl_fact() {
  return {.name = "NCCL", .version = {}, .problem = kProblem};
}

std::shared_ptr<CudaSession> connect_nccl(Device& /*device*/, Communicator& /*communicator*/,
                                          const RanksFacts& /*facts*/) {
  throw Error(ErrorKind::Usage, kProblem);
}

}  // namespace trireme::cuda
