// Device memory that processes of one host share by cudaIpc. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <cuda_runtime_api.h>

#include "trireme/schedule.h"
#include "trireme/units.h"

namespace trireme::cuda {

/// What another process needs to open a piece of device memory, as plain bytes.
struct IpcName {
  cudaIpcMemHandle_t handle{};
  std::int64_t number = 0;  ///< of the piece, in its process
};

/// Memory of this process for others to open. Freed with the object; nobody may read it then.
class IpcMemory {
 public:
  /// Throws Error(System) if there is not enough, or if this machine's driver cannot share memory.
  IpcMemory(Bytes bytes, std::int64_t number);
  ~IpcMemory();
  IpcMemory(const IpcMemory&) = delete;
  IpcMemory& operator=(const IpcMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const IpcName& name() const { return name_; }

 private:
  std::int64_t size_;
  void* data_ = nullptr;
  IpcName name_{};
};

/// Pieces for reuse: after the first step nothing is allocated.
class IpcPool {
 public:
  [[nodiscard]] std::unique_ptr<IpcMemory> acquire(Bytes at_least);
  void release(std::unique_ptr<IpcMemory> memory);

 private:
  std::int64_t made_ = 0;
  std::multimap<std::int64_t, std::unique_ptr<IpcMemory>> free_;  ///< by size
};

/// The memory of other processes; each piece is opened once and closed with the object.
class OpenedMemory {
 public:
  OpenedMemory() = default;
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  /// Where this process sees a piece of a rank of the world. Throws Error(System) if it cannot be opened.
  [[nodiscard]] const std::byte* find(Rank rank, const IpcName& name);

 private:
  std::map<std::pair<Rank, std::int64_t>, void*> opened_;
};

}  // namespace trireme::cuda
