// classifier: a block for each row, which is read once and written once. The first pass finds the logarithm of the sum,
// one maximum and sum for each thread, and keeps the row in shared memory if it fits; the second writes the gradient,
// which may replace the logits. See graph/ops/classifier.cpp for the formulas.
#include <array>
#include <limits>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

constexpr int kClassifierThreads = 1024;
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

/// Over the block, in all threads.
template <class T>
__device__ LogSum<T> over_block(LogSum<T> own) {
  using W = Wide<T>;
  __shared__ W tops[kClassifierWarps];
  __shared__ W sums[kClassifierWarps];
  own = own.over_warp();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (lane == 0) {
    tops[warp] = own.top;
    sums[warp] = own.sum;
  }
  __syncthreads();
  return LogSum<T>{tops[lane], sums[lane]}.over_warp();  // as many warps as lanes
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

/// kCount elements at a time; the width is a multiple of it.
template <class T, class I, int kCount, bool kShared>
__global__ void __launch_bounds__(kClassifierThreads, sizeof(T) == 2 ? 2 : 1)
    classifier_kernel(const ClassifierOperands<T, I> o) {
  using W = Wide<T>;
  using Elements = Pack<T, kCount>;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* kept = reinterpret_cast<Elements*>(shared);
  const std::int64_t row = blockIdx.x;
  const T* in = o.logits + row * o.width;
  const auto* packs = reinterpret_cast<const Elements*>(in);
  auto* out = reinterpret_cast<Elements*>(o.dlogits + row * o.width);
  const auto target = static_cast<std::int64_t>(o.targets[row]);
  const bool counts = target >= 0 && target < o.classes;
  // Before any thread writes: over_block() waits for all.
  const W picked = counts ? load(in[target]) : 0;
  const int count = o.width / kCount;

  LogSum<T> own;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kClassifierThreads) {
    const Elements x = packs[i];
    if constexpr (kShared) {
      kept[i] = x;
    }
    const int valid = o.classes - i * kCount;
    if (valid >= kCount) {
      own = with_pack<true>(own, x, valid);
    } else if (valid > 0) {
      own = with_pack<false>(own, x, valid);
    }
  }
  const LogSum<T> all = over_block(own);
  const W dloss = counts ? o.dlosses[row] : 0;
  if (threadIdx.x == 0) {
    o.losses[row] = counts ? all.top + log(all.sum) - picked : 0;
  }

  const W scale = dloss / all.sum;
  const ExponentialFrom<T> power{all.top};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kClassifierThreads) {
    const Elements x = kShared ? kept[i] : packs[i];
    Elements y;
    for (int k = 0; k < kCount; ++k) {
      y.values[k] = narrow<T>(scale * power(load(x.values[k])));
    }
    const bool has_target = counts && i == target / kCount;
    if (has_target || (i + 1) * kCount > o.classes) {  // a few packs of the row
      for (int k = 0; k < kCount; ++k) {
        const int v = i * kCount + k;
        const W share = scale * power(load(x.values[k])) - (v == target ? dloss : 0);
        y.values[k] = narrow<T>(v < o.classes ? share : 0);
      }
    }
    out[i] = y;
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

template <class T, class I, int kCount>
void enqueue_rows(std::int64_t rows, const ClassifierOperands<T, I>& operands,
                  cudaStream_t stream) {
  const std::int64_t bytes = operands.width * static_cast<std::int64_t>(sizeof(T));
  const auto grid = static_cast<unsigned>(rows);
  if (bytes <= kSharedRow && bytes <= shared_memory()) {
    auto* const kernel = &classifier_kernel<T, I, kCount, true>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "reserving shared memory");
    kernel<<<grid, kClassifierThreads, static_cast<std::size_t>(bytes), stream>>>(operands);
  } else {
    classifier_kernel<T, I, kCount, false><<<grid, kClassifierThreads, 0, stream>>>(operands);
  }
  check(cudaGetLastError(), "launching classifier");
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
      width % kPack<T> == 0 ? enqueue_rows<T, I, kPack<T>>(rows, operands, stream)
                            : enqueue_rows<T, I, 1>(rows, operands, stream);
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
