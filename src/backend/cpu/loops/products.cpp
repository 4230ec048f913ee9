// einsum for types that the library does not multiply, f64 above all. Strides do for any layout; a row of the
// result is summed up in its wide type.
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/matrix_view.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void multiply_row(const ProductView& v, const T* a, const T* b, T* y, Wide<T>* sums) {
  std::fill(sums, sums + v.columns, Wide<T>{0});
  for (std::int64_t k = 0; k < v.summed; ++k) {
    const Wide<T> factor = load(a[k * v.a.column]);
    const T* from = b + k * v.b.row;
    if (v.b.column == 1) {
#pragma omp simd
      for (std::int64_t j = 0; j < v.columns; ++j) {
        sums[j] += factor * load(from[j]);
      }
    } else {
      for (std::int64_t j = 0; j < v.columns; ++j) {
        sums[j] += factor * load(from[j * v.b.column]);
      }
    }
  }
  for (std::int64_t j = 0; j < v.columns; ++j) {
    store(y[j * v.y.column], sums[j]);
  }
}

std::unique_ptr<PreparedKernel> einsum(const KernelRequest& request) {
  const std::optional<ProductView> view = product_view(request);
  if (!view) {
    return nullptr;
  }
  const ProductView v = *view;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [v](const KernelMemory& memory) {
          const std::int64_t cost = std::max<std::int64_t>(v.summed * v.columns, 1);
          parallel(v.batch * v.rows, 1 + kSerial / cost, [&](std::int64_t begin, std::int64_t end) {
            auto* sums =
                reinterpret_cast<Wide<T>*>(memory.workspace) + omp_get_thread_num() * v.columns;
            for (std::int64_t i = begin; i < end; ++i) {
              const std::int64_t batch = i / v.rows;
              const std::int64_t row = i % v.rows;
              multiply_row(v, input<T>(memory, 0) + batch * v.a.batch + row * v.a.row,
                           input<T>(memory, 1) + batch * v.b.batch,
                           output<T>(memory, 0) + batch * v.y.batch + row * v.y.row, sums);
            }
          });
        },
        Bytes{omp_get_max_threads() * v.columns * static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

}  // namespace

std::vector<KernelRow> product_kernels() {
  return {{"einsum", einsum}};
}

}  // namespace trireme::cpu::TRIREME_ISA
