// reduce_sum, reduce_max, sum_squares, and the scalars of a step. Sums have a fixed order.
//
// Axes that are adjacent make the input [outer, reduced, inner]: with inner = 1 a block reduces each row, otherwise the
// rows of each outer part are summed by column. Other axes take one thread for each result.
#include <array>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/strides.h"

namespace trireme::cuda {
namespace {

template <class T, bool kMaximum>
__global__ void __launch_bounds__(kThreads) reduce_rows(const T* x, T* y, std::int64_t length) {
  using W = Wide<T>;
  const T* row = x + std::int64_t{blockIdx.x} * length;
  W value = kMaximum ? static_cast<W>(-INFINITY) : static_cast<W>(0);
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    value = kMaximum ? max(value, load(row[i])) : value + load(row[i]);
  }
  value = block_reduce<W, kMaximum>(value);
  if (threadIdx.x == 0) {
    y[blockIdx.x] = narrow<T>(value);
  }
}

template <class T>
struct Column {
  static constexpr int kCount = kPack<T>;
  const T* x;
  std::int64_t columns;
  template <int kColumns>
  struct Held {
    Raw<T, kColumns> x;
  };
  template <int kColumns>
  __device__ Held<kColumns> load(std::int64_t row, std::int64_t column) const {
    return {load_raw<kColumns>(x + row * columns + column)};
  }
  template <int kColumns, class W>
  __device__ void add(const Held<kColumns>& held, W (&sums)[1][kColumns]) const {
    const WidePack<T, kColumns> own = widened<T, kColumns>(held.x);
    for (int i = 0; i < kColumns; ++i) {
      sums[0][i] += own.values[i];
    }
  }
};

/// One thread for each result.
template <class T, bool kMaximum>
struct ReduceStrided {
  const T* x;
  T* y;
  Strides results;  ///< of the dimensions that stay
  Strides reduced;
  std::int64_t length;
  __device__ void operator()(std::int64_t i) const {
    using W = Wide<T>;
    const T* from = x + results.offset(i);
    W value = kMaximum ? static_cast<W>(-INFINITY) : static_cast<W>(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const W next = load(from[reduced.offset(k)]);
      value = kMaximum ? max(value, next) : value + next;
    }
    y[i] = narrow<T>(value);
  }
};

/// The input as [outer, reduced, inner], if the reduced axes are adjacent.
struct Adjacent {
  std::int64_t outer = 1;
  std::int64_t reduced = 1;
  std::int64_t inner = 1;
};

std::optional<Adjacent> adjacent_axes(const Shape& shape, const std::vector<bool>& is_reduced) {
  Adjacent view;
  int stage = 0;  // outer, reduced, inner
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = is_reduced[d];
    if (reduced && stage == 2) {
      return std::nullopt;
    }
    stage = reduced ? 1 : stage == 0 ? 0 : 2;
    (stage == 0 ? view.outer : stage == 1 ? view.reduced : view.inner) *= shape.dim(d);
  }
  return view;
}

std::vector<bool> reduced_axes(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  std::vector<bool> reduced(shape.rank(), false);
  for (const std::int64_t axis : signature_of(request).integers("axes")) {
    reduced[axis < 0 ? axis + shape.rank() : axis] = true;
  }
  return reduced;
}

template <class T, bool kMaximum>
std::optional<Launch> reduce_strided(const KernelRequest& request,
                                     const std::vector<bool>& is_reduced) {
  const Shape& shape = request.inputs[0].shape;
  if (shape.rank() > kMaxDims) {
    return std::nullopt;
  }
  Strides results;
  Strides reduced;
  std::int64_t length = 1;
  const std::vector<std::int64_t> steps = shape.strides();
  for (int d = 0; d < shape.rank(); ++d) {
    const std::size_t at = d;
    (is_reduced[at] ? reduced : results).push(shape.dim(d), steps[at]);
    length *= is_reduced[at] ? shape.dim(d) : 1;
  }
  const std::int64_t count = request.outputs[0].shape.element_count();
  return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
    enqueue_each(
        count,
        ReduceStrided<T, kMaximum>{input<T>(m, 0), output<T>(m, 0), results, reduced, length},
        stream);
  }};
}

template <class T>
Launch sum_columns(const Adjacent& view) {
  const ColumnSums<T, 1, Column<T>> sums(view.reduced, view.inner);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                for (std::int64_t part = 0; part < view.outer; ++part) {
                  const ColumnResults<T, 1> into{{output<T>(m, 0) + part * view.inner}};
                  sums.enqueue({input<T>(m, 0) + part * view.reduced * view.inner, view.inner},
                               into, m.workspace, stream);
                }
              },
          .workspace = sums.workspace()};
}

template <bool kMaximum>
std::optional<Launch> prepare_reduce(const KernelRequest& request) {
  const std::vector<bool> axes = reduced_axes(request);
  const std::optional<Adjacent> view = adjacent_axes(request.inputs[0].shape, axes);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    if (view && view->inner == 1 && view->outer > 0 && view->outer < (1LL << 31)) {
      return Launch{[view = *view](const KernelMemory& m, cudaStream_t stream) {
        reduce_rows<T, kMaximum><<<static_cast<unsigned>(view.outer), kThreads, 0, stream>>>(
            input<T>(m, 0), output<T>(m, 0), view.reduced);
        check(cudaGetLastError(), "launching a reduction");
      }};
    }
    if (!kMaximum && view && view->outer <= 8 && view->reduced >= 64) {
      return sum_columns<T>(*view);
    }
    return reduce_strided<T, kMaximum>(request, axes);
  });
}

// sum_squares: many tensors in two launches. Blocks sum chunks into the workspace; then a block sums those of a tensor.

constexpr int kSquareItems = 256;
constexpr std::int64_t kSquareParts = 1 << 14;  ///< that the workspace holds
constexpr std::int64_t kLeastChunk = 16 * kThreads;

template <class T>
struct SquareItem {
  const T* x;
  Wide<T>* sum;
  std::int64_t count;
};

template <class T>
struct SquareItems {
  SquareItem<T> items[kSquareItems];
  unsigned first_part[kSquareItems + 1];  ///< by item, of all; then the number of all
  int count;
  std::int64_t chunk;  ///< elements in a part: a multiple of a pack
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    square_parts(const __grid_constant__ SquareItems<T> tensors, Wide<T>* partial) {
  using W = Wide<T>;
  int which = 0;  // the last item whose first part is not after this block's
  for (int after = tensors.count; after - which > 1;) {
    const int middle = (which + after) / 2;
    (blockIdx.x < tensors.first_part[middle] ? after : which) = middle;
  }
  const SquareItem<T>& item = tensors.items[which];
  const std::int64_t begin = (blockIdx.x - tensors.first_part[which]) * tensors.chunk;
  const std::int64_t end = min(item.count, begin + tensors.chunk);
  constexpr int kCount = kPack<T>;
  W sum = 0;
#pragma unroll 8
  for (std::int64_t i = begin + threadIdx.x * kCount; i + kCount <= end; i += kThreads * kCount) {
    const auto x = *reinterpret_cast<const Pack<T>*>(item.x + i);
    for (int k = 0; k < kCount; ++k) {
      const W value = load(x.values[k]);
      sum += value * value;
    }
  }
  const std::int64_t rest = begin + (end - begin) / kCount * kCount;
  if (rest + threadIdx.x < end) {
    const W value = load(item.x[rest + threadIdx.x]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_parts(const __grid_constant__ SquareItems<T> tensors, const Wide<T>* partial) {
  const SquareItem<T>& item = tensors.items[blockIdx.x];
  Wide<T> value = 0;
  const unsigned end = tensors.first_part[blockIdx.x + 1];
#pragma unroll 4
  for (unsigned i = tensors.first_part[blockIdx.x] + threadIdx.x; i < end; i += kThreads) {
    value += partial[i];
  }
  value = block_sum(value);
  if (threadIdx.x == 0) {
    *item.sum = value;
  }
}

/// Elements of a tensor that has none take no part; its sum is 0.
template <class T>
void launch_squares(std::span<const BatchItem> items, cudaStream_t stream) {
  const auto count_of = [](const BatchItem& item) {
    return *static_cast<const std::int64_t*>(item.prepared);
  };
  std::int64_t total = 0;
  for (const BatchItem& item : items) {
    total += count_of(item);
  }
  SquareItems<T> tensors{};
  const std::int64_t wanted = total / (kSquareParts - kSquareItems) + 1;
  tensors.chunk = std::max(kLeastChunk, (wanted + kLeastChunk - 1) / kLeastChunk * kLeastChunk);
  std::int64_t parts = 0;
  for (const BatchItem& item : items) {
    tensors.items[tensors.count++] = {input<T>(*item.memory, 0), output<Wide<T>>(*item.memory, 0),
                                      count_of(item)};
    parts += (count_of(item) + tensors.chunk - 1) / tensors.chunk;
    tensors.first_part[tensors.count] = static_cast<unsigned>(parts);
  }
  auto* partial = reinterpret_cast<Wide<T>*>(items.front().memory->workspace);
  if (parts > 0) {
    square_parts<T><<<static_cast<unsigned>(parts), kThreads, 0, stream>>>(tensors, partial);
  }
  sum_parts<T><<<static_cast<unsigned>(tensors.count), kThreads, 0, stream>>>(tensors, partial);
  check(cudaGetLastError(), "launching a sum of squares");
}

template <class T>
void enqueue_squares(std::span<const BatchItem> items, cudaStream_t stream) {
  for (std::size_t begin = 0; begin < items.size(); begin += kSquareItems) {
    launch_squares<T>(
        items.subspan(begin, std::min<std::size_t>(kSquareItems, items.size() - begin)), stream);
  }
}

std::optional<Launch> prepare_sum_squares(const KernelRequest& request) {
  const auto count = std::make_shared<const std::int64_t>(request.inputs[0].shape.element_count());
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    return Launch{.enqueue =
                      [count](const KernelMemory& m, cudaStream_t stream) {
                        const BatchItem alone{&m, count.get()};
                        enqueue_squares<T>(std::span(&alone, 1), stream);
                      },
                  .workspace = {kSquareParts * 8},
                  .enqueue_batch = enqueue_squares<T>,
                  .prepared = count};
  });
}

// clip_scale

constexpr int kSumsAtOnce = 256;

/// Addresses of scalars in f32 or f64, passed by value.
struct Scalars {
  const void* at[kSumsAtOnce];
  bool is_double[kSumsAtOnce];
  __device__ double read(int k) const {
    return is_double[k] ? *static_cast<const double*>(at[k])
                        : static_cast<double>(*static_cast<const float*>(at[k]));
  }
};

/// Adds some of the sums to the one so far; the last call computes the results.
template <class W>
__global__ void __launch_bounds__(kThreads)
    add_sums(const __grid_constant__ Scalars sums, int count, bool first, bool last, double limit,
             W* so_far, W* scale, W* norm, W* finite) {
  W value = threadIdx.x < count ? static_cast<W>(sums.read(static_cast<int>(threadIdx.x))) : 0;
  value = block_sum(value);
  if (threadIdx.x != 0) {
    return;
  }
  const W sum = (first ? 0 : *so_far) + value;
  *so_far = sum;
  if (last) {
    const W root = sqrt(sum);
    const bool is_finite = isfinite(root);
    *scale = is_finite ? min(static_cast<W>(1), static_cast<W>(limit) / root) : 0;
    *norm = root;
    *finite = is_finite ? 1 : 0;
  }
}

template <class W>
Launch clip_scale(const KernelRequest& request) {
  const double limit = signature_of(request).number("limit");
  std::vector<bool> is_double;
  for (const TensorType& type : request.inputs) {
    is_double.push_back(type.dtype == DType::F64);
  }
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const std::size_t sums = is_double.size();
                for (std::size_t begin = 0; begin < sums; begin += kSumsAtOnce) {
                  Scalars scalars{};
                  const std::size_t count = std::min<std::size_t>(kSumsAtOnce, sums - begin);
                  for (std::size_t k = 0; k < count; ++k) {
                    scalars.at[k] = m.inputs[begin + k];
                    scalars.is_double[k] = is_double[begin + k];
                  }
                  add_sums<W><<<1, kThreads, 0, stream>>>(
                      scalars, static_cast<int>(count), begin == 0, begin + count == sums, limit,
                      reinterpret_cast<W*>(m.workspace), output<W>(m, 0), output<W>(m, 1),
                      output<W>(m, 2));
                  check(cudaGetLastError(), "launching a gradient norm");
                }
              },
          .workspace = {16}};
}

std::optional<Launch> prepare_clip_scale(const KernelRequest& request) {
  return request.outputs[0].dtype == DType::F64 ? clip_scale<double>(request)
                                                : clip_scale<float>(request);
}

// next_loss_scale

template <class W>
struct NextLossScale {
  const W* scale;
  const W* good;
  const W* finite;
  const W* loss;
  W* new_scale;
  W* new_good;
  W* lowered;
  W interval;
  W least;
  W most;
  __device__ void operator()(std::int64_t /*one*/) const {
    const W count = *good + 1;
    const bool is_finite = *finite != 0;
    const bool grows = is_finite && count >= interval;
    const W lower = max(least, *scale / 2);
    const bool lowers = !is_finite && isfinite(*loss) && lower < *scale;
    const W higher = max(*scale, min(most, *scale * 2));
    const W next = lowers ? lower : grows ? higher : *scale;
    const W next_good = lowers || grows ? 0 : is_finite ? count : *good;
    *new_scale = next;
    *new_good = next_good;
    *lowered = lowers ? 1 : 0;
  }
};

template <class W>
Launch next_loss_scale(const Signature& s) {
  const auto interval = static_cast<W>(s.integer("interval"));
  const auto least = static_cast<W>(s.number("least"));
  const auto most = static_cast<W>(s.number("most"));
  return {.enqueue = [=](const KernelMemory& m, cudaStream_t stream) {
    enqueue_each(
        1,
        NextLossScale<W>{input<W>(m, 0), input<W>(m, 1), input<W>(m, 2), input<W>(m, 3),
                         output<W>(m, 0), output<W>(m, 1), output<W>(m, 2), interval, least, most},
        stream);
  }};
}

std::optional<Launch> prepare_next_loss_scale(const KernelRequest& request) {
  const Signature s = signature_of(request);
  return request.inputs[0].dtype == DType::F64 ? next_loss_scale<double>(s)
                                               : next_loss_scale<float>(s);
}

}  // namespace

std::span<const KernelRow> reduction_kernels() {
  static constexpr std::array kRows{
      KernelRow{"reduce_sum", prepare_reduce<false>}, KernelRow{"reduce_max", prepare_reduce<true>},
      KernelRow{"sum_squares", prepare_sum_squares}, KernelRow{"clip_scale", prepare_clip_scale},
      KernelRow{"next_loss_scale", prepare_next_loss_scale}};
  return kRows;
}

}  // namespace trireme::cuda
