// Arena: where storages (lifetimes.h) are in one block of memory. The largest is placed first, each at the lowest offset
// where it overlaps no other that is live at the same time. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/lifetimes.h"

namespace trireme {

inline constexpr Bytes kDefaultAlignment{64};

class Arena {
 public:
  /// Offsets are multiples of `alignment`. The storages must outlive this object.
  Arena(const std::vector<Storage>& storages, Bytes alignment);

  [[nodiscard]] std::int64_t offset_of(std::int32_t storage) const { return offset_[storage]; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  void place(std::size_t s);
  [[nodiscard]] std::int64_t lowest_place(const Storage& storage) const;

  const std::vector<Storage>& storages_;
  std::int64_t alignment_;
  std::vector<std::int64_t> offset_;  ///< by storage
  std::vector<std::size_t> placed_;   ///< by offset
  std::int64_t size_ = 0;
};

}  // namespace trireme
