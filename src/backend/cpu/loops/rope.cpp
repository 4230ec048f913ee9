// Rotary position embeddings: rotates pairs (i, i + D/2) of each head by the angle (start + t)
// base^(-2i/D).
#include <cmath>
#include <compare>
#include <memory>
#include <vector>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/shared_by_key.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The tables of cosines and sines, [T, D/2] each, in f64.
struct Angles {
  std::vector<double> cosines;
  std::vector<double> sines;
};

struct AngleKey {
  std::int64_t length = 0;
  std::int64_t half = 0;
  std::int64_t start = 0;
  double base = 0;
  auto operator<=>(const AngleKey&) const = default;
};

Angles make_angles(const AngleKey& key) {
  Angles angles;
  for (std::int64_t t = 0; t < key.length; ++t) {
    for (std::int64_t i = 0; i < key.half; ++i) {
      const double angle =
          static_cast<double>(key.start + t) *
          std::pow(key.base, -static_cast<double>(i) / static_cast<double>(key.half));
      angles.cosines.push_back(std::cos(angle));
      angles.sines.push_back(std::sin(angle));
    }
  }
  return angles;
}

/// One table for all kernels with the same positions: a model has four such kernels in every layer.
std::shared_ptr<const Angles> angles_of(const AngleKey& key) {
  static SharedByKey<AngleKey, Angles> tables;
  return tables.get(key, make_angles);
}

std::unique_ptr<PreparedKernel> rope(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const Shape& shape = s.shape(0);
  const std::int64_t length = shape.dim(1);
  const std::int64_t heads = shape.dim(2);
  const std::int64_t depth = shape.dim(3);
  const std::int64_t rows = shape.dim(0) * length;
  const std::shared_ptr<const Angles> angles =
      angles_of({length, depth / 2, s.integer("start"), s.number("base")});
  const double way = s.flag("inverse") ? -1 : 1;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel([=](const KernelMemory& memory) {
      parallel(rows, 1 + kSerial / std::max<std::int64_t>(heads * depth, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const double* c = angles->cosines.data() + row % length * (depth / 2);
                   const double* n = angles->sines.data() + row % length * (depth / 2);
                   for (std::int64_t h = 0; h < heads; ++h) {
                     const T* x = input<T>(memory, 0) + (row * heads + h) * depth;
                     T* y = output<T>(memory, 0) + (row * heads + h) * depth;
#pragma omp simd
                     for (std::int64_t i = 0; i < depth / 2; ++i) {
                       const W a = load(x[i]);
                       const W b = load(x[i + depth / 2]);
                       const W sine = static_cast<W>(way * n[i]);
                       store(y[i], a * static_cast<W>(c[i]) - b * sine);
                       store(y[i + depth / 2], b * static_cast<W>(c[i]) + a * sine);
                     }
                   }
                 }
               });
    });
  });
}

}  // namespace

std::vector<KernelRow> rope_kernels() {
  return {{"rope", rope}};
}

}  // namespace trireme::cpu::TRIREME_ISA
