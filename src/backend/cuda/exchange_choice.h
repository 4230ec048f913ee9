// How ranks on GPUs exchange: what was requested, and what they have. Callable from any thread.
#pragma once

#include "trireme/cuda_device.h"

namespace trireme::cuda {

/// Facts about all ranks of a run.
struct RanksFacts {
  bool have_nccl = true;     ///< every one
  bool own_gpus = true;      ///< no two share one
  bool share_a_host = true;  ///< all are on one
};

/// Nccl, Ipc or Host. Throws Error(Usage), which says what to do, if the ranks do not have what was requested.
[[nodiscard]] CudaExchange choose_exchange(CudaExchange requested, const RanksFacts& facts);

}  // namespace trireme::cuda
