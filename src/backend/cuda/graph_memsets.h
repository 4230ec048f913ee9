// See graph_memsets.cu.
#pragma once

#include <cuda_runtime_api.h>

namespace trireme::cuda {

/// Replaces the graph's memsets of a few bytes by kernels.
void replace_memsets(cudaGraph_t graph);

}  // namespace trireme::cuda
