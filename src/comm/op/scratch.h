// Scratch: temporary memory for an operation, taken from the world's pool.
//
// Fresh memory is expensive: the kernel zeroes every page on first access, which takes longer than sending it. The pool
// keeps what operations return, so that a training loop touches fresh pages only in its first step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace trireme::comm {

class ScratchPool {
 public:
  ScratchPool() = default;
  ~ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  struct Free {
    void operator()(std::byte* memory) const;
  };
  /// Uninitialized bytes, aligned for any element and any vector register.
  struct Piece {
    std::unique_ptr<std::byte, Free> memory{};
    std::size_t bytes = 0;
  };

  [[nodiscard]] Piece take(std::size_t bytes);
  void give_back(Piece piece);

 private:
  Mutex mutex_;
  std::vector<Piece> kept_ TRIREME_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;
};

/// The scratch memory of one operation; returned on destruction.
class Scratch {
 public:
  explicit Scratch(ScratchPool& pool) : pool_(pool) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::byte* get(std::size_t bytes);

 private:
  ScratchPool& pool_;
  std::vector<ScratchPool::Piece> pieces_;
};

}  // namespace trireme::comm
