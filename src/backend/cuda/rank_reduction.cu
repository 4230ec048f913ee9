#include "backend/cuda/elements.cuh"
#include "backend/cuda/rank_reduction.h"
#include "trireme/error.h"

namespace trireme::cuda {
namespace {

constexpr std::size_t kMaxRanks = 64;  ///< kMaxIpcRanks

template <class T>
using Total = std::conditional_t<std::is_integral_v<T>, T, Wide<T>>;

struct Plus {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return a + b;
  }
};
struct Times {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return a * b;
  }
};
struct Smaller {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return b < a ? b : a;
  }
};
struct Larger {
  template <class W>
  __device__ W operator()(W a, W b) const {
    return a < b ? b : a;
  }
};

template <class T>
__device__ Total<T> widened_total(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return load(value);
  }
}

template <class T>
__device__ T narrowed_total(Total<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return narrow<T>(value);
  }
}

/// kCount neighbors at a time.
template <class T, class Combine, int kCount>
struct CombineRanks {
  const T* from[kMaxRanks];
  T* to;
  int ranks;
  int divisor;  ///< of the result
  __device__ void operator()(std::int64_t i) const {
    using Elements = Pack<T, kCount>;
    Total<T> total[kCount];
    for (int rank = 0; rank < ranks; ++rank) {
      const Elements some = reinterpret_cast<const Elements*>(from[rank])[i];
      for (int k = 0; k < kCount; ++k) {
        const Total<T> value = widened_total(some.values[k]);
        total[k] = rank == 0 ? value : Combine{}(total[k], value);
      }
    }
    Elements result;
    for (int k = 0; k < kCount; ++k) {
      result.values[k] = narrowed_total<T>(total[k] / static_cast<Total<T>>(divisor));
    }
    reinterpret_cast<Elements*>(to)[i] = result;
  }
};

template <class T>
bool blocks_fit_packs(const KernelMemory& memory, std::int64_t count) {
  return count % kPack<T> == 0 && is_aligned_to_pack(memory.outputs[0]) &&
         std::ranges::all_of(memory.inputs, is_aligned_to_pack);
}

template <class T, class Combine, int kCount>
void enqueue_combination(const KernelMemory& memory, std::int64_t count, bool average,
                         cudaStream_t stream) {
  const int ranks = static_cast<int>(memory.inputs.size());
  CombineRanks<T, Combine, kCount> combine{
      .from = {}, .to = output<T>(memory, 0), .ranks = ranks, .divisor = average ? ranks : 1};
  for (std::size_t rank = 0; rank < memory.inputs.size(); ++rank) {
    combine.from[rank] = input<T>(memory, rank);
  }
  enqueue_each(count / kCount, combine, stream);
}

template <class T, class Combine>
Launch combination_of(std::int64_t count, bool average) {
  return {[=](const KernelMemory& memory, cudaStream_t stream) {
    if (blocks_fit_packs<T>(memory, count)) {
      enqueue_combination<T, Combine, kPack<T>>(memory, count, average, stream);
    } else {
      enqueue_combination<T, Combine, 1>(memory, count, average, stream);
    }
  }};
}

template <class T>
std::optional<Launch> for_reduction(Reduction reduction, std::int64_t count) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Average:
      return combination_of<T, Plus>(count, reduction == Reduction::Average);
    case Reduction::Product:
      return combination_of<T, Times>(count, false);
    case Reduction::Min:
      return combination_of<T, Smaller>(count, false);
    case Reduction::Max:
      return combination_of<T, Larger>(count, false);
    default:
      return std::nullopt;
  }
}

}  // namespace

Launch rank_reduction(DType dtype, Reduction reduction, std::int64_t count) {
  const std::optional<Launch> launch =
      for_number(dtype, [&]<class T>(T) { return for_reduction<T>(reduction, count); });
  if (!launch) {
    throw Error(ErrorKind::Usage, "cudaIpc does not reduce " + std::string(to_text(dtype)) +
                                      " by " + std::string(to_text(reduction)) +
                                      "; use --gpu-exchange host");
  }
  return *launch;
}

}  // namespace trireme::cuda
