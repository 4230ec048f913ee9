#include "backend/cuda/exchange_choice.h"

#include "trireme/error.h"

namespace trireme::cuda {

CudaExchange choose_exchange(CudaExchange requested, const RanksFacts& facts) {
  switch (requested) {
    case CudaExchange::Nccl:
      if (!facts.have_nccl) {
        throw Error(ErrorKind::Usage,
                    "nccl: not every rank has it (see trireme devices); use --gpu-exchange host");
      }
      return requested;
    case CudaExchange::Ipc:
      if (!facts.share_a_host) {
        throw Error(ErrorKind::Usage,
                    "cudaIpc: the ranks are on several hosts; use --gpu-exchange nccl or host");
      }
      return requested;
    case CudaExchange::Host:
      return requested;
    case CudaExchange::Auto:
      break;
  }
  return facts.have_nccl && facts.own_gpus ? CudaExchange::Nccl : CudaExchange::Host;
}

}  // namespace trireme::cuda
