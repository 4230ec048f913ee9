// Buffer: elements in private or shared memory, between guard bytes that nothing may write to.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sequence.h"
#include "trireme/comm.h"

namespace trireme::fuzz {

class Buffer {
 public:
  Buffer() = default;  ///< no elements, no memory
  /// Throws what World::allocate throws.
  Buffer(World& world, const Location& where, DType dtype, std::int64_t elements) {
    if (where.memory == Memory::None) {
      return;
    }
    const std::int64_t element = size_of(dtype).count;
    begin_ = kGuard + static_cast<std::size_t>(where.offset * element);
    size_ = static_cast<std::size_t>(elements * element);
    allocate(world, where.memory, begin_ + size_ + kGuard);
    reset();
  }

  /// Fills everything with the guard pattern.
  void reset() { std::ranges::fill(memory_, kPattern); }

  [[nodiscard]] std::span<std::byte> data() const { return memory_.subspan(begin_, size_); }
  /// Whether the guard bytes around the data are unchanged.
  [[nodiscard]] bool guards_hold() const {
    const auto is_guard = [](std::byte b) { return b == kPattern; };
    return std::ranges::all_of(memory_.first(begin_), is_guard) &&
           std::ranges::all_of(memory_.subspan(begin_ + size_), is_guard);
  }
  [[nodiscard]] bool is_untouched() const {
    return std::ranges::all_of(memory_, [](std::byte b) { return b == kPattern; });
  }
  /// Whether the memory was initially zero, as World::allocate promises.
  [[nodiscard]] bool began_zero() const { return began_zero_; }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPattern{0xA5};

  void allocate(World& world, Memory kind, std::size_t bytes) {
    if (kind == Memory::Shared) {
      shared_ = world.allocate<std::byte>(bytes);
      memory_ = shared_.span();
    } else {
      private_ = std::make_unique<std::byte[]>(bytes);
      memory_ = {private_.get(), bytes};
    }
    began_zero_ = std::ranges::all_of(memory_, [](std::byte b) { return b == std::byte{0}; });
  }

  std::unique_ptr<std::byte[]> private_;
  SharedSpan<std::byte> shared_;
  std::span<std::byte> memory_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
  bool began_zero_ = true;
};

}  // namespace trireme::fuzz
