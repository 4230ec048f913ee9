// embedding and its gradient, rows by index, rotary positions.
//
// The gradient of a table sums the rows of dy with equal ids in the order of their positions: ids are sorted with their
// positions (stably), and a block sums each run of equal ids. So the result is the same in every run.
#include <array>

#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/elements.cuh"
#include "tensor/container_size.h"

namespace trireme::cuda {
namespace {

/// A warp copies the row of an id, in units of U.
template <class U, class I>
struct Embedding {
  const U* table;
  const I* ids;
  U* y;
  std::int64_t units;  ///< of a row
  std::int64_t rows;
  std::int64_t first;
  __device__ void operator()(std::int64_t at, int lane) const {
    const std::int64_t row = static_cast<std::int64_t>(ids[at]) - first;
    const bool here = row >= 0 && row < rows;
    for (std::int64_t i = lane; i < units; i += kWarp) {
      y[at * units + i] = here ? table[row * units + i] : U{};
    }
  }
};

/// The table's shape and its first row, of a shard.
struct Table {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t first;
};

template <class U, class I>
void enqueue_embedding(const KernelMemory& m, std::int64_t ids, const Table& table,
                       std::int64_t units, cudaStream_t stream) {
  enqueue_each_row(ids,
                   Embedding<U, I>{input<U>(m, 0), input<I>(m, 1), output<U>(m, 0), units,
                                   table.rows, table.first},
                   stream);
}

std::optional<Launch> prepare_embedding(const KernelRequest& request) {
  const Table table{request.inputs[0].shape.dim(0), request.inputs[0].shape.dim(1),
                    signature_of(request).integer("first")};
  const std::int64_t count = request.inputs[1].shape.element_count();
  return for_size(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
        const bool packs = table.columns % kPack<T> == 0 && is_aligned_to_pack(m.inputs[0]) &&
                           is_aligned_to_pack(m.outputs[0]);
        packs ? enqueue_embedding<uint4, I>(m, count, table, table.columns / kPack<T>, stream)
              : enqueue_embedding<T, I>(m, count, table, table.columns, stream);
      }};
    });
  });
}

/// The row of each id in this shard of the table, or `rows` for another shard's; and its position.
template <class I>
struct RowsOfIds {
  const I* ids;
  std::uint32_t* keys;
  std::uint32_t* positions;
  std::int64_t rows;
  std::int64_t first;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = static_cast<std::int64_t>(ids[i]) - first;
    keys[i] = static_cast<std::uint32_t>(row >= 0 && row < rows ? row : rows);
    positions[i] = static_cast<std::uint32_t>(i);
  }
};

/// A block for each position in sorted order; those that begin a run sum it. Positions are read kThreads at a time, so that
/// the loads of the rows do not wait for them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_runs(const T* dy, const std::uint32_t* keys, const std::uint32_t* positions, T* dtable,
             std::int64_t count, std::int64_t columns, std::int64_t rows) {
  const std::int64_t at = blockIdx.x;
  const std::uint32_t key = keys[at];
  if (key >= rows || (at > 0 && keys[at - 1] == key)) {
    return;
  }
  __shared__ std::uint32_t rows_of_run[kThreads];
  for (std::int64_t first = 0; first < columns; first += kThreads) {
    const std::int64_t c = first + threadIdx.x;
    Wide<T> sum = 0;
    int found = kThreads;
    for (std::int64_t begin = at; found == kThreads; begin += kThreads) {
      const std::int64_t mine = begin + threadIdx.x;
      const bool in_run = mine < count && keys[mine] == key;
      __syncthreads();
      rows_of_run[threadIdx.x] = in_run ? positions[mine] : 0;
      found = __syncthreads_count(in_run ? 1 : 0);
#pragma unroll 8
      for (int i = 0; i < found; ++i) {
        sum += c < columns ? load(dy[rows_of_run[i] * columns + c]) : Wide<T>{0};
      }
    }
    if (c < columns) {
      dtable[key * columns + c] = narrow<T>(sum);
    }
  }
}

/// The parts of the workspace of embedding_backward.
struct SortSpace {
  std::size_t keys = 0;  ///< bytes of an array of keys or positions
  std::size_t sort = 0;  ///< bytes of the sort's own memory
};

SortSpace sort_space(std::int64_t count) {
  SortSpace space{.keys = (static_cast<std::size_t>(count) * 4 + 255) / 256 * 256};
  const std::uint32_t* none = nullptr;
  auto* out = static_cast<std::uint32_t*>(nullptr);
  (void)cub::DeviceRadixSort::SortPairs(nullptr, space.sort, none, out, none, out,
                                        static_cast<int>(count));
  return space;
}

template <class T, class I>
Launch embedding_backward(std::int64_t count, std::int64_t columns, std::int64_t rows,
                          std::int64_t first) {
  const SortSpace space = sort_space(count);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const auto part = [&](std::size_t k) {
                  return reinterpret_cast<std::uint32_t*>(m.workspace + k * space.keys);
                };
                const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(T);
                check(cudaMemsetAsync(m.outputs[0], 0, bytes, stream), "clearing a table");
                if (count == 0 || columns == 0) {
                  return;
                }
                enqueue_each(count, RowsOfIds<I>{input<I>(m, 1), part(0), part(1), rows, first},
                             stream);
                std::size_t sort_bytes = space.sort;
                check(cub::DeviceRadixSort::SortPairs(m.workspace + 4 * space.keys, sort_bytes,
                                                      part(0), part(2), part(1), part(3),
                                                      static_cast<int>(count), 0, 32, stream),
                      "sorting ids");
                sum_runs<T><<<static_cast<unsigned>(count), kThreads, 0, stream>>>(
                    input<T>(m, 0), part(2), part(3), output<T>(m, 0), count, columns, rows);
                check(cudaGetLastError(), "launching embedding_backward");
              },
          .workspace = {static_cast<std::int64_t>(4 * space.keys + space.sort)}};
}

std::optional<Launch> prepare_embedding_backward(const KernelRequest& request) {
  const Signature s = signature_of(request);
  const std::int64_t count = request.inputs[1].shape.element_count();
  const std::int64_t columns = request.inputs[0].shape.dims().back();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return embedding_backward<T, I>(count, columns, s.integer("rows"), s.integer("first"));
    });
  });
}

// gather_rows, scatter_rows

template <class T, class I>
struct GatherRows {
  const T* x;
  const I* indices;
  T* y;
  std::int64_t many;  ///< rows of a sequence of x
  std::int64_t few;   ///< of y
  std::int64_t columns;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns;
    const std::int64_t from = row / few * many + static_cast<std::int64_t>(indices[row]);
    y[i] = x[from * columns + i % columns];
  }
};

/// One thread for each element of x; it looks for its row among the indices.
template <class T, class I>
struct ScatterRows {
  const T* y;
  const I* indices;
  T* x;
  std::int64_t many;
  std::int64_t few;
  std::int64_t columns;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns % many;
    const std::int64_t sequence = i / columns / many;
    Wide<T> sum = 0;
    for (std::int64_t k = 0; k < few; ++k) {
      if (static_cast<std::int64_t>(indices[sequence * few + k]) == row) {
        sum += load(y[(sequence * few + k) * columns + i % columns]);
      }
    }
    x[i] = narrow<T>(sum);
  }
};

std::optional<Launch> prepare_gather_rows(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const std::int64_t few = request.inputs[1].shape.dim(1);
  const std::int64_t count = request.outputs[0].shape.element_count();
  return for_size(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[=, many = x.dim(1), columns = x.dim(2)](const KernelMemory& m,
                                                             cudaStream_t stream) {
        enqueue_each(
            count,
            GatherRows<T, I>{input<T>(m, 0), input<I>(m, 1), output<T>(m, 0), many, few, columns},
            stream);
      }};
    });
  });
}

std::optional<Launch> prepare_scatter_rows(const KernelRequest& request) {
  const Shape& x = request.outputs[0].shape;
  const std::int64_t few = request.inputs[1].shape.dim(1);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I) -> std::optional<Launch> {
      return Launch{[few, count = x.element_count(), many = x.dim(1), columns = x.dim(2)](
                        const KernelMemory& m, cudaStream_t stream) {
        enqueue_each(
            count,
            ScatterRows<T, I>{input<T>(m, 0), input<I>(m, 1), output<T>(m, 0), many, few, columns},
            stream);
      }};
    });
  });
}

// rope

/// Of the first `heads` of a token's vectors; tokens are `step` elements apart. A thread turns one pair of all heads, which
/// share the angle: it takes far longer than the rest.
template <class T>
struct Rope {
  const T* x;
  T* y;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t step;
  std::int64_t half;
  double log_base;
  double start;
  double sign;
  __device__ void operator()(std::int64_t i) const {
    using W = Wide<T>;
    const std::int64_t token = i / half;
    const std::int64_t pair = i % half;
    const double position = start + static_cast<double>(token % tokens);
    const double angle =
        position * exp(-log_base * static_cast<double>(pair) / static_cast<double>(half));
    const auto cosine = static_cast<W>(cos(angle));
    const auto sine = static_cast<W>(sign * sin(angle));
    const std::int64_t first = token * step + pair;
#pragma unroll 8
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t at = first + head * 2 * half;
      const W a = load(x[at]);
      const W b = load(x[at + half]);
      y[at] = narrow<T>(a * cosine - b * sine);
      y[at + half] = narrow<T>(b * cosine + a * sine);
    }
  }
};

std::optional<Launch> prepare_rope(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Signature s = signature_of(request);
  const std::int64_t some = s.integer("heads");
  const std::int64_t heads = some == 0 ? x.dim(2) : some;
  const std::int64_t tokens = x.dim(0) * x.dim(1);
  const std::size_t bytes = container_size(size_of(request.inputs[0]));
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    const Rope<T> rope{nullptr,
                       nullptr,
                       x.dim(1),
                       heads,
                       x.dim(2) * x.dim(3),
                       x.dim(3) / 2,
                       std::log(s.number("base")),
                       static_cast<double>(s.integer("start")),
                       s.flag("inverse") ? -1.0 : 1.0};
    return Launch{[=, whole = heads == x.dim(2)](const KernelMemory& m, cudaStream_t stream) {
      Rope<T> placed = rope;
      placed.x = input<T>(m, 0);
      placed.y = output<T>(m, 0);
      if (!whole && m.inputs[0] != m.outputs[0]) {
        check(cudaMemcpyAsync(m.outputs[0], m.inputs[0], bytes, cudaMemcpyDeviceToDevice, stream),
              "copying heads");
      }
      enqueue_each(tokens * placed.half, placed, stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> embedding_kernels() {
  static constexpr std::array kRows{KernelRow{"embedding", prepare_embedding},
                                    KernelRow{"embedding_backward", prepare_embedding_backward},
                                    KernelRow{"gather_rows", prepare_gather_rows},
                                    KernelRow{"scatter_rows", prepare_scatter_rows},
                                    KernelRow{"rope", prepare_rope}};
  return kRows;
}

}  // namespace trireme::cuda
