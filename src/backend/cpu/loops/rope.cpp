// Rotary position embeddings: rotates pairs (i, i + D/2) of each head by the angle (start + t)
// base^(-2i/D).
#include <algorithm>
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

/// The angles of a token, and which way they turn.
struct Turn {
  const double* cosines = nullptr;
  const double* sines = nullptr;
  double way = 1;
};

/// The first heads of one token.
template <class T>
void rotate(const T* x, T* y, std::int64_t heads, std::int64_t depth, const Turn& turn) {
  using W = Wide<T>;
  for (std::int64_t h = 0; h < heads; ++h, x += depth, y += depth) {
#pragma omp simd
    for (std::int64_t i = 0; i < depth / 2; ++i) {
      const W a = load(x[i]);
      const W b = load(x[i + depth / 2]);
      const W sine = static_cast<W>(turn.way * turn.sines[i]);
      store(y[i], a * static_cast<W>(turn.cosines[i]) - b * sine);
      store(y[i + depth / 2], b * static_cast<W>(turn.cosines[i]) + a * sine);
    }
  }
}

/// How a kernel turns: the way, and how many of the heads.
struct Rotation {
  double way = 1;
  std::int64_t heads = 0;
};

/// `position(memory, row)` is the row of the tables for a token.
template <class Position>
std::unique_ptr<PreparedKernel> rotation(const KernelRequest& request, const AngleKey& key,
                                         const Rotation& how, Position position) {
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t heads = shape.dim(2);
  const std::int64_t depth = shape.dim(3);
  const std::int64_t rows = shape.dim(0) * shape.dim(1);
  const std::shared_ptr<const Angles> angles = angles_of(key);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([=, limit = key.length](const KernelMemory& memory) {
      if (memory.inputs.size() > 1) {
        require_ids("rope_at", input<std::int32_t>(memory, 1), rows, 0, limit);
      }
      parallel(rows, 1 + kSerial / std::max<std::int64_t>(heads * depth, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   const std::int64_t at = position(memory, row) * (depth / 2);
                   const T* x = input<T>(memory, 0) + row * heads * depth;
                   T* y = output<T>(memory, 0) + row * heads * depth;
                   rotate(x, y, how.heads, depth,
                          {angles->cosines.data() + at, angles->sines.data() + at, how.way});
                   if (x != y) {
                     std::copy(x + how.heads * depth, x + heads * depth, y + how.heads * depth);
                   }
                 }
               });
    });
  });
}

std::unique_ptr<PreparedKernel> rope(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::int64_t length = s.shape(0).dim(1);
  const std::int64_t heads = s.integer("heads");
  return rotation(request, {length, s.shape(0).dim(3) / 2, s.integer("start"), s.number("base")},
                  {s.flag("inverse") ? -1.0 : 1.0, heads == 0 ? s.shape(0).dim(2) : heads},
                  [length](const KernelMemory&, std::int64_t row) { return row % length; });
}

std::unique_ptr<PreparedKernel> rope_at(const KernelRequest& request) {
  if (request.inputs[1].dtype != DType::I32) {
    return nullptr;
  }
  const Signature s = signature_of(request);
  const std::int64_t limit = s.integer("limit");
  return rotation(request, {limit, s.shape(0).dim(3) / 2, 0, s.number("base")},
                  {1, s.shape(0).dim(2)},
                  [](const KernelMemory& memory, std::int64_t row) -> std::int64_t {
                    return input<std::int32_t>(memory, 1)[row];
                  });
}

}  // namespace

std::vector<KernelRow> rope_kernels() {
  return {{"rope", rope}, {"rope_at", rope_at}};
}

}  // namespace trireme::cpu::TRIREME_ISA
