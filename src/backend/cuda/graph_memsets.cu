// Memsets of a CUDA graph, as kernels: with more than about 500 memsets, launching a graph waits for the device, and each
// costs three times the gap of a kernel. Libraries clear a few bytes before most of their kernels.
#include <vector>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/graph_memsets.h"

namespace trireme::cuda {
namespace {

/// More is left to the driver.
constexpr std::size_t kFewBytes = 4096;

__global__ void __launch_bounds__(kThreads)
    fill_kernel(void* at, unsigned value, unsigned size, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    switch (size) {
      case 1:
        static_cast<std::uint8_t*>(at)[i] = static_cast<std::uint8_t>(value);
        break;
      case 2:
        static_cast<std::uint16_t*>(at)[i] = static_cast<std::uint16_t>(value);
        break;
      default:
        static_cast<std::uint32_t*>(at)[i] = value;
    }
  }
}

using Nodes = std::vector<cudaGraphNode_t>;

Nodes nodes_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "listing a graph");
  Nodes nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count), "listing a graph");
  return nodes;
}

/// The node's neighbors, by a function that lists them.
template <class List>
Nodes neighbors(List list, cudaGraphNode_t node) {
  std::size_t count = 0;
  check(list(node, nullptr, nullptr, &count), "listing a graph");
  Nodes nodes(count);
  if (count > 0) {
    check(list(node, nodes.data(), nullptr, &count), "listing a graph");
  }
  return nodes;
}

bool is_memset(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  check(cudaGraphNodeGetType(node, &type), "listing a graph");
  return type == cudaGraphNodeTypeMemset;
}

void replace(cudaGraph_t graph, cudaGraphNode_t node, const cudaMemsetParams& memset) {
  void* at = memset.dst;
  unsigned value = memset.value;
  auto count = static_cast<unsigned>(memset.width);
  unsigned size = memset.elementSize;
  void* arguments[] = {&at, &value, &size, &count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&fill_kernel);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = arguments;
  const Nodes before = neighbors(cudaGraphNodeGetDependencies, node);
  const Nodes after = neighbors(cudaGraphNodeGetDependentNodes, node);
  cudaGraphNode_t fill = nullptr;
  check(cudaGraphAddKernelNode(&fill, graph, before.data(), before.size(), &kernel),
        "replacing a memset");
  for (cudaGraphNode_t next : after) {
    check(cudaGraphAddDependencies(graph, &fill, &next, nullptr, 1), "replacing a memset");
  }
  check(cudaGraphDestroyNode(node), "replacing a memset");
}

}  // namespace

void replace_memsets(cudaGraph_t graph) {
  for (cudaGraphNode_t node : nodes_of(graph)) {
    if (!is_memset(node)) {
      continue;
    }
    cudaMemsetParams memset{};
    check(cudaGraphMemsetNodeGetParams(node, &memset), "reading a memset");
    if (memset.height <= 1 && memset.width * memset.elementSize <= kFewBytes) {
      replace(graph, node, memset);
    }
  }
}

}  // namespace trireme::cuda
