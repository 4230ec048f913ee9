// The largest of rows, rows by their numbers, and what loss scaling decides with.
#include <cstring>
#include <span>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/rows.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The first of the largest not yet taken; a NaN that comes first is never exceeded.
template <class T>
std::int64_t next_largest(const T* row, std::int64_t n, const std::uint8_t* taken) {
  std::int64_t best = -1;
  for (std::int64_t e = 0; e < n; ++e) {
    if (taken[e] == 0 && (best < 0 || load(row[e]) > load(row[best]))) {
      best = e;
    }
  }
  return best;
}

std::unique_ptr<PreparedKernel> top_k(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  const std::int64_t k = signature_of(request).integer("k");
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [=](const KernelMemory& memory) {
          parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
            auto* taken = reinterpret_cast<std::uint8_t*>(memory.workspace) +
                          omp_get_thread_num() * rows.length;
            for (std::int64_t r = begin; r < end; ++r) {
              const T* row = input<T>(memory, 0) + r * rows.length;
              std::fill(taken, taken + rows.length, std::uint8_t{0});
              for (std::int64_t j = 0; j < k; ++j) {
                const std::int64_t best = next_largest(row, rows.length, taken);
                taken[best] = 1;
                output<T>(memory, 0)[r * k + j] = row[best];
                output<std::int32_t>(memory, 1)[r * k + j] = static_cast<std::int32_t>(best);
              }
            }
          });
        },
        Bytes{omp_get_max_threads() * rows.length});
  });
}

std::unique_ptr<PreparedKernel> top_k_backward(const KernelRequest& request) {
  const Rows chosen(request.inputs[0].shape);
  const std::int64_t size = signature_of(request).integer("size");
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel([=](const KernelMemory& memory) {
        const I* indices = input<I>(memory, 1);
        const std::int64_t k = chosen.length;
        require_ids("top_k_backward", indices, chosen.count * k, 0, size);
        parallel(chosen.count, chosen.grain(), [&](std::int64_t begin, std::int64_t end) {
          T* scores = output<T>(memory, 0);
          std::fill(scores + begin * size, scores + end * size, T{});
          for (std::int64_t i = begin * k; i < end * k; ++i) {
            T& to = scores[i / k * size + static_cast<std::int64_t>(indices[i])];
            store(to, load(to) + load(input<T>(memory, 0)[i]));
          }
        });
      });
    });
  });
}

/// Rows of any type.
std::unique_ptr<PreparedKernel> gather_rows(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const std::int64_t count = request.inputs[1].shape.element_count();
  const std::int64_t each = request.inputs[1].shape.dim(1);
  const std::int64_t rows = x.dim(1);
  const std::int64_t bytes = x.dim(2) * size_of(request.inputs[0].dtype).count;
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return kernel([=](const KernelMemory& memory) {
      const I* indices = input<I>(memory, 1);
      require_ids("gather_rows", indices, count, 0, rows);
      parallel(count, 1 + kSerial / std::max<std::int64_t>(bytes, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = i / each * rows + static_cast<std::int64_t>(indices[i]);
                   std::memcpy(memory.outputs[0] + i * bytes, memory.inputs[0] + row * bytes,
                               bytes);
                 }
               });
    });
  });
}

/// Threads split sequences and columns, so that one thread adds all rows with the same index, in order.
template <class T, class I>
void add_rows(const T* y, std::span<const I> indices, T* x, std::int64_t width, std::int64_t first,
              std::int64_t columns) {
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const T* from = y + static_cast<std::int64_t>(k) * width + first;
    T* to = x + static_cast<std::int64_t>(indices[k]) * width + first;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) {
      store(to[c], load(to[c]) + load(from[c]));
    }
  }
}

std::unique_ptr<PreparedKernel> scatter_rows(const KernelRequest& request) {
  constexpr std::int64_t kStrip = 256;
  const Shape& y = request.inputs[0].shape;
  const Shape& x = request.outputs[0].shape;
  const std::int64_t count = y.dim(1);
  const std::int64_t rows = x.dim(1);
  const std::int64_t width = x.dim(2);
  const std::int64_t strips = (width + kStrip - 1) / kStrip;
  const std::int64_t tasks = x.dim(0) * strips;
  const std::int64_t all = x.element_count();
  return with_ids(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel([=](const KernelMemory& memory) {
        const I* indices = input<I>(memory, 1);
        T* to = output<T>(memory, 0);
        require_ids("scatter_rows", indices, width == 0 ? 0 : tasks / strips * count, 0, rows);
        parallel(all, kSerial, [=](std::int64_t begin, std::int64_t end) {
          std::fill(to + begin, to + end, T{});
        });
        parallel(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t task = begin; task < end; ++task) {
            const std::int64_t b = task / strips;
            const std::int64_t first = task % strips * kStrip;
            add_rows(input<T>(memory, 0) + b * count * width, std::span(indices + b * count, count),
                     to + b * rows * width, width, first, std::min(kStrip, width - first));
          }
        });
      });
    });
  });
}

/// a and b of any type.
std::unique_ptr<PreparedKernel> select(const KernelRequest& request) {
  const std::int64_t bytes = size_of(request.inputs[1]).count;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([bytes](const KernelMemory& memory) {
      const std::byte* from = memory.inputs[load(*input<T>(memory, 0)) != 0 ? 1 : 2];
      if (from == memory.outputs[0]) {
        return;
      }
      parallel(bytes, kSerial * 4, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(memory.outputs[0] + begin, from + begin, end - begin);
      });
    });
  });
}

}  // namespace

std::vector<KernelRow> choice_kernels() {
  return {{"gather_rows", gather_rows},
          {"scatter_rows", scatter_rows},
          {"select", select},
          {"top_k", top_k},
          {"top_k_backward", top_k_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
