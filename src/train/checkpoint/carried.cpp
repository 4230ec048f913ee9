#include "train/checkpoint/carried.h"

#include <algorithm>
#include <cstring>

#include "tensor/container_size.h"
#include "trireme/partition.h"

namespace trireme::train {
namespace {

/// The first row of `to` becomes the sum of all rows of `from`.
template <class T>
void add_rows(std::span<const std::byte> from, std::size_t row, std::span<std::byte> to) {
  std::vector<T> sum(row / sizeof(T), T{0});
  for (std::size_t i = 0; i < from.size() / sizeof(T); ++i) {
    T element{};
    std::memcpy(&element, from.data() + i * sizeof(T), sizeof(T));
    sum[i % sum.size()] += element;
  }
  std::memcpy(to.data(), sum.data(), row);
}

bool is_of_other_ranks(const TensorType& now, const TensorSpec& then) {
  const auto& a = now.shape.dims();
  const auto& b = then.shape.dims();
  return now.dtype == then.dtype && a.size() == b.size() &&
         std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

}  // namespace

bool is_carried(std::string_view name) {
  return name.starts_with(kResidual) || name.starts_with(kBasis);
}

std::vector<std::byte> carried_over(const Value& state, const TensorView* saved) {
  std::vector<std::byte> elements(container_size(size_of(state.type)));
  if (saved == nullptr) {
    return elements;
  }
  if (saved->spec.dtype == state.type.dtype && saved->spec.shape == state.type.shape) {
    std::ranges::copy(saved->bytes, elements.begin());
  } else if (state.name.starts_with(kResidual) && is_of_other_ranks(state.type, saved->spec)) {
    const std::size_t row = elements.size() / state.type.shape.dim(0);
    if (state.type.dtype == DType::F64) {
      add_rows<double>(saved->bytes, row, elements);
    } else {
      add_rows<float>(saved->bytes, row, elements);
    }
  }
  return elements;
}

}  // namespace trireme::train
