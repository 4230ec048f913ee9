#include "tensor/half.h"

#include <cstring>

namespace trireme {
namespace {

template <class Half>
void widen(std::span<const std::byte> from, std::byte* to) {
  for (std::size_t i = 0; i < from.size() / sizeof(Half); ++i) {
    Half element;
    std::memcpy(&element, from.data() + i * sizeof(Half), sizeof(Half));
    const float value = to_f32(element);
    std::memcpy(to + i * sizeof(float), &value, sizeof(float));
  }
}

template <class Half, Half (*kNarrow)(float)>
void narrow(const std::byte* from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < to.size() / sizeof(Half); ++i) {
    float value = 0;
    std::memcpy(&value, from + i * sizeof(float), sizeof(float));
    const Half element = kNarrow(value);
    std::memcpy(to.data() + i * sizeof(Half), &element, sizeof(Half));
  }
}

}  // namespace

bool is_half(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

void widen_halves(DType dtype, std::span<const std::byte> from, std::byte* to) {
  dtype == DType::F16 ? widen<Float16>(from, to) : widen<BFloat16>(from, to);
}

void narrow_to_halves(DType dtype, const std::byte* from, std::span<std::byte> to) {
  dtype == DType::F16 ? narrow<Float16, to_f16>(from, to) : narrow<BFloat16, to_bf16>(from, to);
}

}  // namespace trireme
