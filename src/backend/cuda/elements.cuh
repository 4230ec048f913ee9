// Elements in memory and in registers, and how kernels are launched over them. bf16 and f16 are computed in f32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backend/cuda/kernel.h"

namespace trireme::cuda {

/// The type in which a T is computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ inline Wide<T> load(T value) {
  return static_cast<Wide<T>>(value);
}
template <>
__device__ inline float load(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <>
__device__ inline float load(__half value) {
  return __half2float(value);
}

template <class T>
__device__ inline T narrow(Wide<T> value) {
  return static_cast<T>(value);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half narrow<__half>(float value) {
  return __float2half_rn(value);
}

/// What one thread loads and stores at once: 16 bytes.
template <class T>
inline constexpr int kPack = 16 / sizeof(T);

template <class T, int kCount = kPack<T>>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <class T, int kCount = kPack<T>>
struct WidePack {
  Wide<T> values[kCount];
};

/// Whether packs can be read and written starting at this address.
inline bool is_aligned_to_pack(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(uint4) == 0;
}

/// The elements of a pack that is held in four registers. Of bf16 by integer operations: the compiler would hold its
/// elements in a register each.
template <class T>
__device__ inline WidePack<T> unpacked(const uint4& bits) {
  WidePack<T> wide;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const unsigned words[] = {bits.x, bits.y, bits.z, bits.w};
    for (int k = 0; k < 4; ++k) {
      wide.values[2 * k] = __uint_as_float(words[k] << 16);
      wide.values[2 * k + 1] = __uint_as_float(words[k] & 0xffff0000U);
    }
  } else {
    static_assert(sizeof(Pack<T>) == sizeof bits);
    Pack<T> pack;
    memcpy(&pack, &bits, sizeof bits);
    for (int k = 0; k < kPack<T>; ++k) {
      wide.values[k] = load(pack.values[k]);
    }
  }
  return wide;
}

/// One element, or a pack of them, in as few registers as it needs.
template <class T, int kCount>
using Raw = std::conditional_t<kCount == kPack<T>, uint4, T>;

template <int kCount, class T>
__device__ inline Raw<T, kCount> load_raw(const T* at) {
  return *reinterpret_cast<const Raw<T, kCount>*>(at);
}

template <class T, int kCount>
__device__ inline WidePack<T, kCount> widened(const Raw<T, kCount>& raw) {
  if constexpr (kCount == kPack<T>) {
    return unpacked<T>(raw);
  } else {
    static_assert(kCount == 1);
    return {{load(raw)}};
  }
}

/// Calls f with a T{} for the element type; nothing for integers.
template <class F>
std::optional<Launch> for_float(DType dtype, F f) {
  switch (dtype) {
    case DType::F32:
      return f(float{});
    case DType::F64:
      return f(double{});
    case DType::BF16:
      return f(__nv_bfloat16{});
    case DType::F16:
      return f(__half{});
    default:
      return std::nullopt;
  }
}

/// Calls f with an unsigned integer of the element's size: for kernels that only move elements.
template <class F>
std::optional<Launch> for_size(DType dtype, F f) {
  switch (size_of(dtype).count) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 8:
      return f(std::uint64_t{});
    default:
      return std::nullopt;
  }
}

/// Calls f with an I{} for the type of ids; nothing for those without a kernel.
template <class F>
std::optional<Launch> with_ids(DType ids, F f) {
  switch (ids) {
    case DType::I32:
      return f(std::int32_t{});
    case DType::I64:
      return f(std::int64_t{});
    case DType::U8:
      return f(std::uint8_t{});
    default:
      return std::nullopt;
  }
}

/// Calls f with a T{} for an element type of either kind.
template <class F>
std::optional<Launch> for_number(DType dtype, F f) {
  const std::optional<Launch> launch = for_float(dtype, f);
  return launch ? launch : with_ids(dtype, f);
}

template <class T>
const T* input(const KernelMemory& memory, std::size_t k) {
  return reinterpret_cast<const T*>(memory.inputs[k]);
}
template <class T>
T* output(const KernelMemory& memory, std::size_t k) {
  return reinterpret_cast<T*>(memory.outputs[k]);
}

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

inline unsigned blocks_for(std::int64_t work, std::int64_t each) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((work + each - 1) / each, 1, 1 << 20));
}

/// How many blocks of a kernel are resident on the current device at once.
template <class Kernel>
std::int64_t resident_blocks(Kernel* kernel, int threads) {
  int device = 0;
  int processors = 0;
  int each = 0;
  check(cudaGetDevice(&device), "finding the current device");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "reading the device's properties");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
        "reading a kernel's properties");
  return std::int64_t{processors} * std::max(each, 1);
}

template <class F>
__global__ void __launch_bounds__(kThreads) each_kernel(std::int64_t count, F f) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    f(i);
  }
}

/// f(i) for all i below the count, one thread each.
template <class F>
void enqueue_each(std::int64_t count, const F& f, cudaStream_t stream) {
  if (count > 0) {
    each_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(count, f);
    check(cudaGetLastError(), "launching a kernel");
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads) each_row_kernel(std::int64_t rows, F f) {
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
       row < rows; row += warps) {
    f(row, static_cast<int>(threadIdx.x % kWarp));
  }
}

/// f(row, lane) for all rows, one warp each.
template <class F>
void enqueue_each_row(std::int64_t rows, const F& f, cudaStream_t stream) {
  if (rows > 0) {
    each_row_kernel<<<blocks_for(rows, kThreads / kWarp), kThreads, 0, stream>>>(rows, f);
    check(cudaGetLastError(), "launching a kernel");
  }
}

/// The sum over a warp, in all lanes.
template <class W>
__device__ inline W warp_sum(W value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
template <class W>
__device__ inline W warp_max(W value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// Over a block of kThreads, in all threads.
template <class W, bool kMaximum>
__device__ inline W block_reduce(W value) {
  __shared__ W parts[kThreads / kWarp];
  value = kMaximum ? warp_max(value) : warp_sum(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
    parts[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  W all = parts[0];
  for (int i = 1; i < kThreads / kWarp; ++i) {
    all = kMaximum ? max(all, parts[i]) : all + parts[i];
  }
  return all;
}
template <class W>
__device__ inline W block_sum(W value) {
  return block_reduce<W, false>(value);
}

}  // namespace trireme::cuda
