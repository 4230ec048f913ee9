// classifier: blocks take rows by turns, each of which is read once and written once. The first pass finds the logarithm of
// the sum, one maximum and sum for each thread; the second writes the gradient, which may replace the logits. A row that
// fits is kept in shared memory: as a thread's second pass has used a pack there, it has the same pack of the block's next
// row copied to its place, which arrives while the block, and another one beside it, compute. A thread uses none but
// packs that it has copied itself. See graph/ops/classifier.cpp for the formulas.
#include <array>
#include <limits>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

constexpr int kClassifierThreads = 512;
constexpr int kClassifierWarps = kClassifierThreads / kWarp;
/// Two rows at a time in an SM of Hopper; a longer row is read again from the cache.
constexpr std::int64_t kSharedRow = 110 * 1024;

/// 16-bit logits have fewer digits than the fast exponential.
template <class T>
__device__ Wide<T> exponential(Wide<T> x) {
  if constexpr (sizeof(T) == 2) {
    return __expf(x);
  } else {
    return exp(x);
  }
}

/// e^(x - top) for many x: one multiplication and addition, and a power of 2, in 16-bit types.
template <class T>
struct ExponentialFrom {
  using W = Wide<T>;
  static constexpr W kLog2OfE = static_cast<W>(1.44269504088896340736);
  W top;
  W shift = top * kLog2OfE;
  __device__ W operator()(W x) const {
    if constexpr (sizeof(T) == 2) {
      float y;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, kLog2OfE, -shift)));
      return y;
    } else {
      return exp(x - top);
    }
  }
};

/// The largest of some logits, and the sum of e^(logit - top).
template <class T>
struct LogSum {
  using W = Wide<T>;
  W top = std::numeric_limits<W>::lowest();
  W sum = 0;

  __device__ LogSum merged(W other_top, W other_sum) const {
    const W highest = max(top, other_top);
    return {highest,
            sum * exponential<T>(top - highest) + other_sum * exponential<T>(other_top - highest)};
  }
  /// Over a warp, in all lanes.
  __device__ LogSum over_warp() const {
    LogSum all = *this;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const W other_top = __shfl_xor_sync(kAllLanes, all.top, distance);
      const W other_sum = __shfl_xor_sync(kAllLanes, all.sum, distance);
      all = all.merged(other_top, other_sum);
    }
    return all;
  }
};

/// Adds the first `valid` of some logits; kWhole: they are all valid.
template <bool kWhole, class T, int kCount>
__device__ LogSum<T> with_pack(const LogSum<T>& before, const Pack<T, kCount>& x, int valid) {
  Wide<T> top = before.top;
  for (int k = 0; k < kCount; ++k) {
    top = kWhole || k < valid ? max(top, load(x.values[k])) : top;
  }
  const ExponentialFrom<T> power{top};
  Wide<T> sum = before.sum * exponential<T>(before.top - top);
  for (int k = 0; k < kCount; ++k) {
    sum += kWhole || k < valid ? power(load(x.values[k])) : 0;
  }
  return {top, sum};
}

/// Over the block, in all threads. Calls in turn alternate between two turns: then one barrier is enough.
template <class T>
__device__ LogSum<T> over_block(LogSum<T> own, int turn) {
  __shared__ LogSum<T> parts[2][kClassifierWarps];
  own = own.over_warp();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) {
    parts[turn][threadIdx.x / kWarp] = own;
  }
  __syncthreads();
  return (lane < kClassifierWarps ? parts[turn][lane] : LogSum<T>{}).over_warp();
}

/// Starts to copy 16 bytes to shared memory.
__device__ inline void start_copy(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
/// Waits for what this thread has started to copy.
__device__ inline void finish_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

template <class T, class I>
struct ClassifierOperands {
  const T* logits;
  const I* targets;
  const Wide<T>* dlosses;
  Wide<T>* losses;
  T* dlogits;
  int width;    ///< of a row
  int classes;  ///< the rest of the row is padding
};

/// A thread's part of the logarithm of a row's sum. The width is a multiple of kCount.
template <class T, int kCount>
__device__ LogSum<T> own_sum(const Pack<T, kCount>* row, int count, int classes) {
  LogSum<T> own;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kClassifierThreads) {
    const int valid = classes - i * kCount;
    if (valid >= kCount) {
      own = with_pack<true>(own, row[i], valid);
    } else if (valid > 0) {
      own = with_pack<false>(own, row[i], valid);
    }
  }
  return own;
}

/// What the elements of a row's gradient share.
template <class T>
struct RowGradient {
  using W = Wide<T>;
  ExponentialFrom<T> power;
  W scale;
  W dloss;
  int target;  ///< -1: none
  int classes;

  template <int kCount>
  __device__ Pack<T, kCount> operator()(const Pack<T, kCount>& x, int first) const {
    Pack<T, kCount> y;
    for (int k = 0; k < kCount; ++k) {
      y.values[k] = narrow<T>(scale * power(load(x.values[k])));
    }
    const bool has_target = target >= first && target < first + kCount;
    if (has_target || first + kCount > classes) {  // a few packs of the row
      for (int k = 0; k < kCount; ++k) {
        const W share = scale * power(load(x.values[k])) - (first + k == target ? dloss : 0);
        y.values[k] = narrow<T>(first + k < classes ? share : 0);
      }
    }
    return y;
  }
};

/// kKept: rows pass through shared memory, which has room for one.
template <class T, class I, int kCount, bool kKept>
__global__ void __launch_bounds__(kClassifierThreads, 2)
    classifier_kernel(const __grid_constant__ ClassifierOperands<T, I> o, std::int64_t rows) {
  using W = Wide<T>;
  using Elements = Pack<T, kCount>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* const kept = reinterpret_cast<Elements*>(shared);
  const int count = o.width / kCount;
  const auto row_of = [&](std::int64_t row) {
    return reinterpret_cast<const Elements*>(o.logits + row * o.width);
  };
  for (int i = static_cast<int>(threadIdx.x); kKept && i < count; i += kClassifierThreads) {
    start_copy(kept + i, row_of(blockIdx.x) + i);
  }
  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto target = static_cast<std::int64_t>(o.targets[row]);
    const bool counts = target >= 0 && target < o.classes;
    const W dloss = counts ? o.dlosses[row] : 0;
    // Before any thread writes: over_block() waits for all.
    const W picked = counts ? load(o.logits[row * o.width + target]) : 0;
    if constexpr (kKept) {
      finish_copies();
    }
    const Elements* const in = kKept ? kept : row_of(row);
    const LogSum<T> all = over_block(own_sum<T, kCount>(in, count, o.classes), turn);
    turn = 1 - turn;
    if (threadIdx.x == 0) {
      o.losses[row] = counts ? all.top + log(all.sum) - picked : 0;
    }
    const RowGradient<T> gradient{
        {all.top}, dloss / all.sum, dloss, counts ? static_cast<int>(target) : -1, o.classes};
    auto* const out = reinterpret_cast<Elements*>(o.dlogits + row * o.width);
    const bool more = kKept && row + gridDim.x < rows;
    const Elements* const next = row_of(row + gridDim.x);
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kClassifierThreads) {
      out[i] = gradient(in[i], i * kCount);
      if (more) {
        start_copy(kept + i, next + i);
      }
    }
  }
}

/// What a block can have on the current device, less what the kernel has besides.
std::int64_t shared_memory() {
  constexpr int kOwn = 1024;
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "finding the current device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "reading the device's properties");
  return bytes - kOwn;
}

template <class T, class I, int kCount, bool kKept>
void enqueue_rows(std::int64_t rows, const ClassifierOperands<T, I>& operands, std::size_t shared,
                  cudaStream_t stream) {
  auto* const kernel = &classifier_kernel<T, I, kCount, kKept>;
  if (kKept) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)),
          "reserving shared memory");
  }
  const std::int64_t blocks = std::min(rows, resident_blocks(kernel, kClassifierThreads, shared));
  kernel<<<static_cast<unsigned>(blocks), kClassifierThreads, shared, stream>>>(operands, rows);
  check(cudaGetLastError(), "launching classifier");
}

template <class T, class I>
void enqueue_classifier(std::int64_t rows, const ClassifierOperands<T, I>& operands,
                        cudaStream_t stream) {
  const std::int64_t bytes = operands.width * static_cast<std::int64_t>(sizeof(T));
  if (operands.width % kPack<T> != 0) {
    enqueue_rows<T, I, 1, false>(rows, operands, 0, stream);
  } else if (bytes <= kSharedRow && bytes <= shared_memory()) {
    enqueue_rows<T, I, kPack<T>, true>(rows, operands, static_cast<std::size_t>(bytes), stream);
  } else {
    enqueue_rows<T, I, kPack<T>, false>(rows, operands, 0, stream);
  }
}

std::optional<Launch> prepare_classifier(const KernelRequest& request) {
  const std::int64_t rows = request.inputs[1].shape.element_count();
  const std::int64_t width = request.inputs[0].shape.dims().back();
  const std::int64_t given = signature_of(request).integer("classes");
  if (rows >= (1LL << 31) || width >= (1LL << 30)) {
    return std::nullopt;
  }
  const auto classes = static_cast<int>(given > 0 ? given : width);
  const auto make = [&]<class T, class I>(T, I) -> std::optional<Launch> {
    return Launch{[=](const KernelMemory& m, cudaStream_t stream) {
      if (rows == 0) {
        return;
      }
      const ClassifierOperands<T, I> operands{input<T>(m, 0),
                                              input<I>(m, 1),
                                              input<Wide<T>>(m, 2),
                                              output<Wide<T>>(m, 0),
                                              output<T>(m, 1),
                                              static_cast<int>(width),
                                              classes};
      enqueue_classifier(rows, operands, stream);
    }};
  };
  return for_float(request.inputs[0].dtype, [&]<class T>(T element) -> std::optional<Launch> {
    return with_ids(request.inputs[1].dtype, [&]<class I>(I id) { return make(element, id); });
  });
}

}  // namespace

std::span<const KernelRow> classifier_kernels() {
  static constexpr std::array kRows{KernelRow{"classifier", prepare_classifier}};
  return kRows;
}

}  // namespace trireme::cuda
