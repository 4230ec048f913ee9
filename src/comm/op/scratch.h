// Scratch: memory that an operation needs while it runs, taken from the world's pool.
//
// Fresh memory is expensive: the system clears every page at its first touch, which takes longer than to
// send it. The pool keeps what operations give back, so that a training loop touches fresh pages in its
// first step only.
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

/// What one operation has taken; given back with it.
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
