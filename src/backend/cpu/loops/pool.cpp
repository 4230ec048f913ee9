// Pools, image by image; see graph/ops/pool.cpp.
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "graph/ops/window.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

using ops::Area;

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Sizes {
  std::int64_t images = 0;  ///< of all channels
  Area image{};
  Area places{};
  ops::Windows windows{};

  Sizes(const KernelRequest& request, const Shape& x)
      : images(x.dim(0) * x.dim(1)), image(ops::area_of(x)) {
    const Signature s = signature_of(request);
    windows = ops::windows_of(s, ops::area_in(s, "kernel"));
    places = windows.places(image);
  }
  [[nodiscard]] std::int64_t pixels() const { return ops::size_of(image); }
  [[nodiscard]] std::int64_t all_places() const { return ops::size_of(places); }
  [[nodiscard]] std::int64_t grain() const {
    return 1 + kSerial / (1 + all_places() * ops::size_of(windows.kernel));
  }
  /// The rows, or columns, of the image under the window at this position.
  [[nodiscard]] Span under(std::size_t dimension, std::int64_t place) const {
    const std::int64_t first = place * windows.stride[dimension] - windows.padding[dimension];
    return {std::max<std::int64_t>(first, 0),
            std::min(first + windows.kernel[dimension], image[dimension])};
  }
  /// Calls f(place, rows, columns) for each window.
  template <class F>
  void for_each_window(F f) const {
    for (std::int64_t i = 0; i < places[0]; ++i) {
      const Span rows = under(0, i);
      for (std::int64_t j = 0; j < places[1]; ++j) {
        f(i * places[1] + j, rows, under(1, j));
      }
    }
  }
};

/// Calls f(pixel) for the pixels of a window.
template <class F>
void for_each_pixel(const Span& rows, const Span& columns, std::int64_t width, F f) {
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    for (std::int64_t c = columns.begin; c < columns.end; ++c) {
      f(r * width + c);
    }
  }
}

/// The first of the largest pixels.
template <class T>
std::int64_t largest(const T* x, const Span& rows, const Span& columns, std::int64_t width) {
  std::int64_t best = rows.begin * width + columns.begin;
  for_each_pixel(rows, columns, width,
                 [&](std::int64_t pixel) { best = load(x[pixel]) > load(x[best]) ? pixel : best; });
  return best;
}

std::unique_ptr<PreparedKernel> max_pool(const KernelRequest& request) {
  const Sizes z(request, request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([z](const KernelMemory& memory) {
      parallel(z.images, z.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const T* x = input<T>(memory, 0) + p * z.pixels();
          T* y = output<T>(memory, 0) + p * z.all_places();
          z.for_each_window([&](std::int64_t place, const Span& rows, const Span& columns) {
            y[place] = x[largest(x, rows, columns, z.image[1])];
          });
        }
      });
    });
  });
}

std::unique_ptr<PreparedKernel> avg_pool(const KernelRequest& request) {
  const Sizes z(request, request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel([z](const KernelMemory& memory) {
      const W share = 1 / static_cast<W>(ops::size_of(z.windows.kernel));
      parallel(z.images, z.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const T* x = input<T>(memory, 0) + p * z.pixels();
          T* y = output<T>(memory, 0) + p * z.all_places();
          z.for_each_window([&](std::int64_t place, const Span& rows, const Span& columns) {
            W sum = 0;
            for_each_pixel(rows, columns, z.image[1],
                           [&](std::int64_t pixel) { sum += load(x[pixel]); });
            store(y[place], sum * share);
          });
        }
      });
    });
  });
}

/// Gradients of an image, accumulated in the wide type: add(memory, image, sums).
template <class T, class Add>
std::unique_ptr<PreparedKernel> backward(const Sizes& z, Add add) {
  using W = Wide<T>;
  return kernel(
      [z, add](const KernelMemory& memory) {
        parallel(z.images, z.grain(), [&](std::int64_t begin, std::int64_t end) {
          W* sums = reinterpret_cast<W*>(memory.workspace) + omp_get_thread_num() * z.pixels();
          for (std::int64_t p = begin; p < end; ++p) {
            std::fill(sums, sums + z.pixels(), W{0});
            add(memory, p, sums);
            T* dx = output<T>(memory, 0) + p * z.pixels();
#pragma omp simd
            for (std::int64_t i = 0; i < z.pixels(); ++i) {
              store(dx[i], sums[i]);
            }
          }
        });
      },
      Bytes{omp_get_max_threads() * z.pixels() * static_cast<std::int64_t>(sizeof(W))});
}

/// Inputs dy, x.
std::unique_ptr<PreparedKernel> max_pool_backward(const KernelRequest& request) {
  const Sizes z(request, request.inputs[1].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return backward<T>(z, [z](const KernelMemory& memory, std::int64_t p, Wide<T>* sums) {
      const T* dy = input<T>(memory, 0) + p * z.all_places();
      const T* x = input<T>(memory, 1) + p * z.pixels();
      z.for_each_window([&](std::int64_t place, const Span& rows, const Span& columns) {
        sums[largest(x, rows, columns, z.image[1])] += load(dy[place]);
      });
    });
  });
}

std::unique_ptr<PreparedKernel> avg_pool_backward(const KernelRequest& request) {
  const Sizes z(request, request.outputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return backward<T>(z, [z](const KernelMemory& memory, std::int64_t p, W* sums) {
      const T* dy = input<T>(memory, 0) + p * z.all_places();
      const W share = 1 / static_cast<W>(ops::size_of(z.windows.kernel));
      z.for_each_window([&](std::int64_t place, const Span& rows, const Span& columns) {
        const W part = load(dy[place]) * share;
        for_each_pixel(rows, columns, z.image[1], [&](std::int64_t pixel) { sums[pixel] += part; });
      });
    });
  });
}

}  // namespace

std::vector<KernelRow> pool_kernels() {
  return {{"avg_pool", avg_pool},
          {"avg_pool_backward", avg_pool_backward},
          {"max_pool", max_pool},
          {"max_pool_backward", max_pool_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
