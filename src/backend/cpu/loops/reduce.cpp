// Sums and maxima over dimensions, and broadcasts. Adjacent dimensions with the same treatment are merged, which leaves
// [outer, reduced, inner]. Other orders are left to the reference.
//
// The order of additions does not depend on the number of threads.
#include <limits>
#include <optional>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "base/indexed_vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

struct Extents {
  std::int64_t outer = 1;
  std::int64_t reduced = 1;
  std::int64_t inner = 1;
};

/// The three extents, if the axes are adjacent.
std::optional<Extents> extents_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  IndexedVector<std::int64_t, bool> is_reduced(shape.rank(), false);
  for (const std::int64_t axis : axes) {
    is_reduced[axis < 0 ? axis + shape.rank() : axis] = true;
  }
  Extents extents;
  int stage = 0;  // 0 before the reduced ones, 1 among them, 2 after
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = is_reduced[d];
    stage = reduced ? (stage == 2 ? 3 : 1) : (stage == 1 ? 2 : stage);
    if (stage == 3) {
      return std::nullopt;
    }
    std::int64_t& extent = stage == 0   ? extents.outer
                           : stage == 1 ? extents.reduced
                                        : extents.inner;
    extent *= shape.dim(d);
  }
  return extents;
}

struct Sum {
  template <class W>
  static W first() {
    return 0;
  }
  template <class W>
  static W combine(W a, W b) {
    return a + b;
  }
};
struct Largest {
  template <class W>
  static W first() {
    return -std::numeric_limits<W>::infinity();
  }
  template <class W>
  static W combine(W a, W b) {
    return a > b ? a : b;
  }
};

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBlock = 4096;

/// A run of elements, in lanes that are combined at the end.
template <class F, class T>
Wide<T> reduce_run(const T* x, std::int64_t n) {
  using W = Wide<T>;
  W lanes[kLanes];
  std::fill(lanes, lanes + kLanes, F::template first<W>());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t k = 0; k < kLanes; ++k) {
      lanes[k] = F::combine(lanes[k], load(x[i + k]));
    }
  }
  for (; i < n; ++i) {
    lanes[i % kLanes] = F::combine(lanes[i % kLanes], load(x[i]));
  }
  W all = F::template first<W>();
  for (const W lane : lanes) {
    all = F::combine(all, lane);
  }
  return all;
}

/// Long runs are split into blocks whose results are kept in `partial` until all are done.
template <class F, class T>
void reduce_rows(const Extents& e, const T* x, T* y, Wide<T>* partial) {
  const std::int64_t blocks = (e.reduced + kBlock - 1) / kBlock;
  parallel(e.outer * blocks, 1 + kSerial / std::max<std::int64_t>(std::min(e.reduced, kBlock), 1),
           [=](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i) {
               const std::int64_t from = i % blocks * kBlock;
               partial[i] = reduce_run<F>(x + i / blocks * e.reduced + from,
                                          std::min(kBlock, e.reduced - from));
             }
           });
  for (std::int64_t o = 0; o < e.outer; ++o) {
    Wide<T> all = F::template first<Wide<T>>();
    for (std::int64_t k = 0; k < blocks; ++k) {
      all = F::combine(all, partial[o * blocks + k]);
    }
    store(y[o], all);
  }
}

/// Sums over outer dimensions: threads split the columns, in strips that stay in the L1 cache.
template <class F, class T>
void reduce_columns(const Extents& e, const T* x, T* y) {
  using W = Wide<T>;
  constexpr std::int64_t kStrip = 64;
  const std::int64_t strips = (e.inner + kStrip - 1) / kStrip;
  parallel(e.outer * strips, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t column = s % strips * kStrip;
      const std::int64_t width = std::min(kStrip, e.inner - column);
      const T* from = x + s / strips * e.reduced * e.inner + column;
      W sums[kStrip];
      std::fill(sums, sums + kStrip, F::template first<W>());
      for (std::int64_t r = 0; r < e.reduced; ++r) {
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) {
          sums[c] = F::combine(sums[c], load(from[r * e.inner + c]));
        }
      }
      for (std::int64_t c = 0; c < width; ++c) {
        store(y[s / strips * e.inner + column + c], sums[c]);
      }
    }
  });
}

template <class F>
std::unique_ptr<PreparedKernel> reduce(const KernelRequest& request) {
  const auto extents = extents_of(request.inputs[0].shape, signature_of(request).integers("axes"));
  if (!extents) {
    return nullptr;
  }
  const Extents e = *extents;
  const std::int64_t partials = e.outer * ((e.reduced + kBlock - 1) / kBlock);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [e](const KernelMemory& memory) {
          if (e.inner == 1) {
            reduce_rows<F>(e, input<T>(memory, 0), output<T>(memory, 0),
                           reinterpret_cast<Wide<T>*>(memory.workspace));
          } else {
            reduce_columns<F>(e, input<T>(memory, 0), output<T>(memory, 0));
          }
        },
        e.inner == 1 ? Bytes{partials * static_cast<std::int64_t>(sizeof(Wide<T>))} : Bytes{});
  });
}

std::unique_ptr<PreparedKernel> broadcast(const KernelRequest& request) {
  const auto extents = extents_of(request.outputs[0].shape, signature_of(request).integers("axes"));
  if (!extents) {
    return nullptr;
  }
  const Extents e = *extents;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([e](const KernelMemory& memory) {
      const T* x = input<T>(memory, 0);
      T* y = output<T>(memory, 0);
      parallel(e.outer * e.reduced, 1 + kSerial / std::max<std::int64_t>(e.inner, 1),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* from = x + i / e.reduced * e.inner;
                   std::copy(from, from + e.inner, y + i * e.inner);
                 }
               });
    });
  });
}

}  // namespace

std::vector<KernelRow> reduce_kernels() {
  return {{"broadcast", broadcast}, {"reduce_max", reduce<Largest>}, {"reduce_sum", reduce<Sum>}};
}

}  // namespace trireme::cpu::TRIREME_ISA
