#include "comm/op/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace trireme::comm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// The most memory kept between operations; the rest is returned to the system.
constexpr std::size_t kMaxKept = std::size_t{1} << 30;
constexpr std::size_t kMaxPieces = 32;
/// A kept piece may serve requests down to this fraction of its size.
constexpr std::size_t kSlack = 4;

}  // namespace

void ScratchPool::Free::operator()(std::byte* memory) const {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): allocated by aligned_alloc
}

ScratchPool::Piece ScratchPool::take(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  {
    MutexLock lock(mutex_);
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      const bool fits = it->bytes >= rounded && it->bytes / kSlack <= rounded;
      if (fits && (best == kept_.end() || it->bytes < best->bytes)) {
        best = it;
      }
    }
    if (best != kept_.end()) {
      Piece piece = std::move(*best);
      kept_bytes_ -= piece.bytes;
      kept_.erase(best);
      return piece;
    }
  }
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  if (alignment == kHugePage) {
    (void)madvise(memory, rounded, MADV_HUGEPAGE);  // only a hint; works without it, but slower
  }
  return {std::unique_ptr<std::byte, Free>(memory), rounded};
}

void ScratchPool::give_back(Piece piece) {
  MutexLock lock(mutex_);
  // Evict the oldest first: a loop's own pieces are always the newest.
  while (!kept_.empty() && (kept_.size() >= kMaxPieces || kept_bytes_ + piece.bytes > kMaxKept)) {
    kept_bytes_ -= kept_.front().bytes;
    kept_.erase(kept_.begin());
  }
  if (piece.bytes <= kMaxKept) {
    kept_bytes_ += piece.bytes;
    kept_.push_back(std::move(piece));
  }
}

Scratch::~Scratch() {
  for (ScratchPool::Piece& piece : pieces_) {
    pool_.give_back(std::move(piece));
  }
}

std::byte* Scratch::get(std::size_t bytes) {
  pieces_.push_back(pool_.take(bytes));
  return pieces_.back().memory.get();
}

}  // namespace trireme::comm
