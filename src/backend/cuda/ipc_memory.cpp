#include "backend/cuda/ipc_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/cuda/kernel.h"

namespace trireme::cuda {
namespace {

/// The driver puts smaller allocations into one block, and shares whole blocks only.
constexpr std::int64_t kBlock = std::int64_t{2} << 20;

std::int64_t in_blocks(std::int64_t bytes) {
  return std::max<std::int64_t>((bytes + kBlock - 1) / kBlock, 1) * kBlock;
}

/// Like check(), but no later launch is blamed for the failure.
void check_and_forget(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
  }
  check(status, what);
}

}  // namespace

IpcMemory::IpcMemory(Bytes bytes, std::int64_t number) : size_(in_blocks(bytes.count)) {
  check_and_forget(cudaMalloc(&data_, size_),
                   fmt::format("allocating {} to exchange", to_text(Bytes{size_})));
  name_.number = number;
  if (const cudaError_t status = cudaIpcGetMemHandle(&name_.handle, data_); status != cudaSuccess) {
    (void)cudaFree(data_);
    check_and_forget(status, "sharing device memory");
  }
}

IpcMemory::~IpcMemory() {
  (void)cudaFree(data_);
}

std::unique_ptr<IpcMemory> IpcPool::acquire(Bytes at_least) {
  const auto it = free_.lower_bound(at_least.count);
  if (it == free_.end()) {
    return std::make_unique<IpcMemory>(at_least, made_++);
  }
  return std::move(free_.extract(it).mapped());
}

void IpcPool::release(std::unique_ptr<IpcMemory> memory) {
  const std::int64_t size = memory->size();
  free_.emplace(size, std::move(memory));
}

OpenedMemory::~OpenedMemory() {
  for (const auto& [name, address] : opened_) {
    (void)cudaIpcCloseMemHandle(address);
  }
}

const std::byte* OpenedMemory::find(Rank rank, const IpcName& name) {
  void*& address = opened_[{rank, name.number}];
  if (address == nullptr) {
    if (const cudaError_t status =
            cudaIpcOpenMemHandle(&address, name.handle, cudaIpcMemLazyEnablePeerAccess);
        status != cudaSuccess) {
      opened_.erase({rank, name.number});
      check_and_forget(status, fmt::format("opening device memory of rank {}", rank));
    }
  }
  return static_cast<const std::byte*>(address);
}

}  // namespace trireme::cuda
