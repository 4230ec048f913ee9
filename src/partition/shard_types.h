// The types of the shards that one rank has of every copy of a value, computed once. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/indexed_vector.h"
#include "graph/outline.h"
#include "partition/placed.h"

namespace trireme::partition {

class ShardTypes {
 public:
  /// Of the rank at these coordinates. `placed` must outlive this object.
  ShardTypes(const Placed& placed, std::vector<int> coordinates);

  /// A value of an outline with the type of the copy in micro-batch m (-1: in none).
  [[nodiscard]] const Outline::Value& of(CopyId id, int m) const {
    return shards_[first_[id] + (is_even_[id] ? 0 : std::max(m, 0))];
  }
  /// Of this rank, in micro-batch m (-1: in none).
  [[nodiscard]] std::vector<int> coordinates(int m) const;
  /// The shape of the copy's shard.
  [[nodiscard]] Shape shape(CopyId id, int m) const;
  /// This rank's part of an input: its shards of all micro-batches, concatenated.
  [[nodiscard]] Outline::Value of_input(CopyId id);
  [[nodiscard]] Outline::Value of_type(const TensorType& type);

  /// All sizes, for comparing ranks.
  [[nodiscard]] const std::vector<Outline::Value>& all() const noexcept { return shards_; }

 private:
  const Placed& placed_;
  std::vector<int> coordinates_;
  TypeNumbers numbers_;
  std::vector<Outline::Value> shards_;
  IndexedVector<CopyId, std::int32_t> first_;  ///< its first in shards_
  IndexedVector<CopyId, bool> is_even_;        ///< one type for all micro-batches
};

}  // namespace trireme::partition
