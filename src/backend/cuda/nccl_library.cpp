#include "backend/cuda/nccl_library.h"

#include "backend/cuda/library.h"
#include "backend/cuda/nccl.h"

namespace trireme::cuda {
namespace {

Nccl open_nccl() {
  const Library library("libnccl", NCCL_MAJOR, "NCCL");
  Nccl found;
  library.find(found.version, "ncclGetVersion");
  library.find(found.error_string, "ncclGetErrorString");
  library.find(found.unique_id, "ncclGetUniqueId");
  library.find(found.init_rank, "ncclCommInitRank");
  library.find(found.abort, "ncclCommAbort");
  library.find(found.async_error, "ncclCommGetAsyncError");
  library.find(found.group_start, "ncclGroupStart");
  library.find(found.group_end, "ncclGroupEnd");
  library.find(found.all_reduce, "ncclAllReduce");
  library.find(found.all_gather, "ncclAllGather");
  library.find(found.reduce_scatter, "ncclReduceScatter");
  library.find(found.broadcast, "ncclBroadcast");
  library.find(found.reduce, "ncclReduce");
  library.find(found.send, "ncclSend");
  library.find(found.receive, "ncclRecv");
  return found;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl library = open_nccl();
  return library;
}

bool has_nccl() {
  return nccl_fact().problem.empty();
}

void check_nccl(ncclResult_t status, std::string_view what) {
  if (status != ncclSuccess) {
    throw Error(ErrorKind::System, fmt::format("nccl: {}: {}", what, nccl().error_string(status)));
  }
}

CudaLibrary nccl_fact() {
  return library_fact("NCCL", [] {
    int version = 0;  // 22809: 2.28.9
    check_nccl(nccl().version(&version), "reading its version");
    return fmt::format("{}.{}", version / 10000, version / 100 % 100);
  });
}

}  // namespace trireme::cuda
