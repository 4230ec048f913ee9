// Table lookups by index, and their gradients. With a shard of the table, indices of other shards are skipped.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/row_part.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

std::unique_ptr<PreparedKernel> embedding(const KernelRequest& request) {
  const std::int64_t count = request.inputs[1].shape.element_count();
  const std::int64_t row = request.inputs[0].shape.dim(1) * size_of(request.inputs[0].dtype).count;
  const RowPart part(request, request.inputs[0].shape.dim(0), "whole");
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return kernel([count, row, part](const KernelMemory& memory) {
      const I* ids = input<I>(memory, 1);
      require_ids("embedding", ids, count, 0, part.all);
      parallel(count, 1 + kSerial / std::max<std::int64_t>(row, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const auto id = static_cast<std::int64_t>(ids[i]);
                   std::byte* to = memory.outputs[0] + i * row;
                   if (part.has(id)) {
                     std::memcpy(to, memory.inputs[0] + (id - part.first) * row, row);
                   } else {
                     std::memset(to, 0, row);
                   }
                 }
               });
    });
  });
}

constexpr std::int64_t kStrip = 64;

/// 16-bit sums would lose small gradients: a strip of columns of the whole table is accumulated in f32, in scratch
/// memory of the thread, and rounded once.
template <class T, class I>
void add_strip(const KernelMemory& memory, const RowPart& part, const Shape& dy_shape,
               std::int64_t first) {
  const std::int64_t rows = part.count;
  const std::int64_t count = dy_shape.dim(0);
  const std::int64_t columns = dy_shape.dim(1);
  const std::int64_t width = std::min(kStrip, columns - first);
  float* sums = reinterpret_cast<float*>(memory.workspace) + omp_get_thread_num() * rows * kStrip;
  std::fill(sums, sums + rows * kStrip, 0.0F);
  const I* ids = input<I>(memory, 1);
  const T* dy = input<T>(memory, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (!part.has(id)) {
      continue;
    }
    float* to = sums + (id - part.first) * kStrip;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      to[c] += load(dy[i * columns + first + c]);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    T* to = output<T>(memory, 0) + r * columns + first;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) {
      store(to[c], sums[r * kStrip + c]);
    }
  }
}

template <class T, class I>
std::unique_ptr<PreparedKernel> narrow_backward(const KernelRequest& request) {
  const std::int64_t count = request.inputs[1].shape.element_count();
  const Shape& table = request.outputs[0].shape;
  const Shape rows_of_dy{count, table.dim(1)};
  const RowPart part(request, table.dim(0), "whole");
  const std::int64_t strips = (table.dim(1) + kStrip - 1) / kStrip;
  return kernel(
      [=](const KernelMemory& memory) {
        require_ids("embedding_backward", input<I>(memory, 1), count, 0, part.all);
        parallel(strips, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t strip = begin; strip < end; ++strip) {
            add_strip<T, I>(memory, part, rows_of_dy, strip * kStrip);
          }
        });
      },
      Bytes{omp_get_max_threads() * table.dim(0) * kStrip *
            static_cast<std::int64_t>(sizeof(float))});
}

/// Threads split the columns, so that one thread adds all rows with the same index, in order.
std::unique_ptr<PreparedKernel> embedding_backward(const KernelRequest& request) {
  const std::int64_t count = request.inputs[1].shape.element_count();
  const std::int64_t rows = request.outputs[0].shape.dim(0);
  const std::int64_t columns = request.outputs[0].shape.dim(1);
  const RowPart part(request, rows, "whole");
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    const auto add = [&]<class T>(T) {
      return kernel([=](const KernelMemory& memory) {
        const I* ids = input<I>(memory, 1);
        require_ids("embedding_backward", ids, count, 0, part.all);
        const T* dy = input<T>(memory, 0);
        T* table = output<T>(memory, 0);
        parallel(rows * columns, kSerial, [&](std::int64_t begin, std::int64_t end) {
          std::fill(table + begin, table + end, T{0});
        });
        parallel(columns, 64, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = 0; i < count; ++i) {
            const auto id = static_cast<std::int64_t>(ids[i]);
            if (!part.has(id)) {
              continue;
            }
            T* to = table + (id - part.first) * columns;
#pragma omp simd
            for (std::int64_t c = begin; c < end; ++c) {
              to[c] += dy[i * columns + c];
            }
          }
        });
      });
    };
    return for_float(request.inputs[0].dtype, [&]<class T>(T zero) {
      if constexpr (std::is_same_v<T, Wide<T>>) {
        return add(zero);
      } else {
        return narrow_backward<T, I>(request);
      }
    });
  });
}

}  // namespace

std::vector<KernelRow> embedding_kernels() {
  return {{"embedding", embedding}, {"embedding_backward", embedding_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
