// conv2d and its gradients for types that the library does not support: f64, f16, bf16 on older processors. One tap of
// the kernel at a time, as a loop along the rows of the image; sums in the wide type.
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "graph/ops/window.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

using ops::Area;

/// Along one dimension: the outputs [begin, end) for which tap k is inside the image, and its pixel at `begin`.
struct Overlap {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t pixel = 0;

  Overlap(std::int64_t places, std::int64_t image, std::int64_t stride, std::int64_t shift)
      : begin(shift < 0 ? (-shift + stride - 1) / stride : 0),
        end(image > shift ? std::min(places, (image - shift - 1) / stride + 1) : 0),
        pixel(begin * stride + shift) {}
};

struct Sizes {
  std::int64_t batch = 0;
  std::int64_t in = 0;   ///< channels
  std::int64_t out = 0;  ///< channels
  Area image{};
  Area places{};
  ops::Windows windows{};

  /// Calls f(tap, place, pixel, n) for every tap and row: n adjacent outputs, whose pixels are a stride apart.
  template <class F>
  void for_each_run(F f) const {
    for (std::int64_t k = 0; k < windows.kernel[0]; ++k) {
      const Overlap rows(places[0], image[0], windows.stride[0], k - windows.padding[0]);
      for (std::int64_t l = 0; l < windows.kernel[1]; ++l) {
        const Overlap columns(places[1], image[1], windows.stride[1], l - windows.padding[1]);
        if (columns.begin >= columns.end) {
          continue;
        }
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          const std::int64_t row = rows.pixel + (i - rows.begin) * windows.stride[0];
          f(k * windows.kernel[1] + l, i * places[1] + columns.begin,
            row * image[1] + columns.pixel, columns.end - columns.begin);
        }
      }
    }
  }
  [[nodiscard]] std::int64_t pixels() const { return ops::size_of(image); }
  [[nodiscard]] std::int64_t all_places() const { return ops::size_of(places); }
  [[nodiscard]] std::int64_t taps() const { return ops::size_of(windows.kernel); }
};

Sizes sizes_of(const KernelRequest& request, const Shape& x, const Shape& w, const Shape& y) {
  return {.batch = x.dim(0),
          .in = x.dim(1),
          .out = w.dim(0),
          .image = ops::area_of(x),
          .places = ops::area_of(y),
          .windows = ops::windows_of(signature_of(request), ops::area_of(w))};
}

template <class T>
void write_plane(const Wide<T>* sums, T* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    store(to[i], sums[i]);
  }
}

/// A kernel whose result consists of planes, each accumulated by one thread in its own scratch. plane(memory, number,
/// sums) fills it.
template <class T, class Plane>
std::unique_ptr<PreparedKernel> by_planes(std::int64_t count, std::int64_t size, Plane plane) {
  using W = Wide<T>;
  return kernel(
      [=](const KernelMemory& memory) {
        parallel(count, 1, [&](std::int64_t begin, std::int64_t end) {
          W* sums = reinterpret_cast<W*>(memory.workspace) + omp_get_thread_num() * size;
          for (std::int64_t p = begin; p < end; ++p) {
            std::fill(sums, sums + size, W{0});
            plane(memory, p, sums);
            write_plane(sums, output<T>(memory, 0) + p * size, size);
          }
        });
      },
      Bytes{omp_get_max_threads() * size * static_cast<std::int64_t>(sizeof(W))});
}

std::unique_ptr<PreparedKernel> conv2d(const KernelRequest& request) {
  const Sizes z =
      sizes_of(request, request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return by_planes<T>(
        z.batch * z.out, z.all_places(), [z](const KernelMemory& memory, std::int64_t p, W* sums) {
          for (std::int64_t c = 0; c < z.in; ++c) {
            const T* x = input<T>(memory, 0) + (p / z.out * z.in + c) * z.pixels();
            const T* w = input<T>(memory, 1) + (p % z.out * z.in + c) * z.taps();
            z.for_each_run([=, stride = z.windows.stride[1]](std::int64_t tap, std::int64_t place,
                                                             std::int64_t pixel, std::int64_t n) {
              const W factor = load(w[tap]);
#pragma omp simd
              for (std::int64_t j = 0; j < n; ++j) {
                sums[place + j] += factor * load(x[pixel + j * stride]);
              }
            });
          }
        });
  });
}

/// Inputs dy, w.
std::unique_ptr<PreparedKernel> conv2d_backward_input(const KernelRequest& request) {
  const Sizes z =
      sizes_of(request, request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return by_planes<T>(
        z.batch * z.in, z.pixels(), [z](const KernelMemory& memory, std::int64_t p, W* sums) {
          for (std::int64_t o = 0; o < z.out; ++o) {
            const T* dy = input<T>(memory, 0) + (p / z.in * z.out + o) * z.all_places();
            const T* w = input<T>(memory, 1) + (o * z.in + p % z.in) * z.taps();
            z.for_each_run([=, stride = z.windows.stride[1]](std::int64_t tap, std::int64_t place,
                                                             std::int64_t pixel, std::int64_t n) {
              const W factor = load(w[tap]);
#pragma omp simd
              for (std::int64_t j = 0; j < n; ++j) {
                sums[pixel + j * stride] += factor * load(dy[place + j]);
              }
            });
          }
        });
  });
}

/// Inputs dy, x.
std::unique_ptr<PreparedKernel> conv2d_backward_weight(const KernelRequest& request) {
  const Sizes z =
      sizes_of(request, request.inputs[1].shape, request.outputs[0].shape, request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return by_planes<T>(
        z.out * z.in, z.taps(), [z](const KernelMemory& memory, std::int64_t p, W* sums) {
          for (std::int64_t b = 0; b < z.batch; ++b) {
            const T* dy = input<T>(memory, 0) + (b * z.out + p / z.in) * z.all_places();
            const T* x = input<T>(memory, 1) + (b * z.in + p % z.in) * z.pixels();
            z.for_each_run([=, stride = z.windows.stride[1]](std::int64_t tap, std::int64_t place,
                                                             std::int64_t pixel, std::int64_t n) {
              W sum = 0;
#pragma omp simd reduction(+ : sum)
              for (std::int64_t j = 0; j < n; ++j) {
                sum += load(dy[place + j]) * load(x[pixel + j * stride]);
              }
              sums[tap] += sum;
            });
          }
        });
  });
}

}  // namespace

std::vector<KernelRow> conv_kernels() {
  return {{"conv2d", conv2d},
          {"conv2d_backward_input", conv2d_backward_input},
          {"conv2d_backward_weight", conv2d_backward_weight}};
}

}  // namespace trireme::cpu::TRIREME_ISA
