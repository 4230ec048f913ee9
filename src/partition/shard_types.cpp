#include "partition/shard_types.h"

#include <utility>

namespace trireme::partition {

ShardTypes::ShardTypes(const Placed& placed, std::vector<int> coordinates)
    : placed_(placed), coordinates_(std::move(coordinates)) {
  const int micro = placed_.micro();
  const int batches = micro < 0 ? 1 : placed_.axes()[micro].size;
  for (CopyId id = 0; id < placed_.copies.count(); ++id) {
    const DType dtype = placed_.value(id).type.dtype;
    first_.push_back(static_cast<std::int32_t>(shards_.size()));
    shards_.push_back(of_type({dtype, shape(id, 0)}));
    // Earlier micro-batches are never smaller than later ones.
    const bool by_micro = placed_.is_by_micro(id);
    is_even_.push_back(!by_micro || shape(id, 0) == shape(id, batches - 1));
    for (int m = 1; !is_even_.back() && m < batches; ++m) {
      shards_.push_back(of_type({dtype, shape(id, m)}));
    }
  }
}

std::vector<int> ShardTypes::coordinates(int m) const {
  std::vector<int> all = coordinates_;
  if (placed_.micro() >= 0 && m >= 0) {
    all[placed_.micro()] = m;
  }
  return all;
}

Shape ShardTypes::shape(CopyId id, int m) const {
  return shape_at(placed_.copy(id).placement, placed_.value(id).type.shape, placed_.axes(),
                  coordinates(m));
}

Outline::Value ShardTypes::of_type(const TensorType& type) {
  return {.bytes = size_of(type).count, .type = numbers_.of(type), .origin = Origin::Node};
}

Outline::Value ShardTypes::of_input(CopyId id) {
  std::vector<std::int64_t> dims = shape(id, 0).dims();
  if (placed_.is_by_micro(id)) {
    const int d = placed_.copy(id).placement.dimension_of(placed_.micro());
    const int batches = placed_.axes()[placed_.micro()].size;
    for (int m = 1; m < batches; ++m) {
      dims[d] += shape(id, m).dims()[d];
    }
  }
  Outline::Value leaf = of_type({placed_.value(id).type.dtype, Shape(std::move(dims))});
  leaf.origin = Origin::Input;
  return leaf;
}

}  // namespace trireme::partition
