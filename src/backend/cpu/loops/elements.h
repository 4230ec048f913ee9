// Elements in memory and in registers. bf16 and f16 are computed in f32. Included by files that are compiled once per
// instruction set: everything here has internal linkage.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <omp.h>

#include "backend/cpu/kernel.h"
#include "tensor/half_bits.h"
#include "trireme/error.h"
#include "trireme/tensor.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

inline float load(float value) {
  return value;
}
inline double load(double value) {
  return value;
}
inline float load(BFloat16 value) {
  return half::widen(value);
}
inline float load(Float16 value) {
  return half::widen(value);
}

inline void store(float& to, float value) {
  to = value;
}
inline void store(double& to, double value) {
  to = value;
}
inline void store(BFloat16& to, float value) {
  to = half::narrow_to_bf16(value);
}
inline void store(Float16& to, float value) {
  to = half::narrow_to_f16(value);
}

/// The type in which a T is computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls f with a T{} for the element type; nothing for integers.
template <class F>
std::unique_ptr<PreparedKernel> for_float(DType dtype, F f) {
  switch (dtype) {
    case DType::F32:
      return f(float{});
    case DType::F64:
      return f(double{});
    case DType::BF16:
      return f(BFloat16{});
    case DType::F16:
      return f(Float16{});
    default:
      return nullptr;
  }
}

template <class T>
const T* input(const KernelMemory& memory, std::size_t k) {
  return reinterpret_cast<const T*>(memory.inputs[k]);
}
template <class T>
T* output(const KernelMemory& memory, std::size_t k) {
  return reinterpret_cast<T*>(memory.outputs[k]);
}

/// Calls f with an I{} for the type of ids; nothing for those without a kernel.
template <class F>
std::unique_ptr<PreparedKernel> with_ids(DType ids, F f) {
  switch (ids) {
    case DType::I32:
      return f(std::int32_t{});
    case DType::I64:
      return f(std::int64_t{});
    case DType::U8:
      return f(std::uint8_t{});
    default:
      return nullptr;
  }
}

/// Throws Error(Usage) unless all ids are in [least, limit).
template <class I>
void require_ids(std::string_view op, const I* ids, std::int64_t count, std::int64_t least,
                 std::int64_t limit) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (id < least || id >= limit) {
      throw Error(ErrorKind::Usage, std::string(op) + ": number " + std::to_string(id) +
                                        " at place " + std::to_string(i) + " is not below " +
                                        std::to_string(limit));
    }
  }
}

/// Below this many elements one thread is faster than waking the others.
inline constexpr std::int64_t kSerial = 8192;

/// f(begin, end) over parts of [0, n), on all threads. All parts but the last are multiples of `grain`.
template <class F>
void parallel(std::int64_t n, std::int64_t grain, F f) {
  if (n <= grain || omp_get_max_threads() == 1) {
    if (n > 0) {
      f(std::int64_t{0}, n);
    }
    return;
  }
#pragma omp parallel
  {
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t grains = (n + grain - 1) / grain;
    const std::int64_t each = (grains + threads - 1) / threads * grain;
    const std::int64_t begin = std::min(n, omp_get_thread_num() * each);
    const std::int64_t end = std::min(n, begin + each);
    if (begin < end) {
      f(begin, end);
    }
  }
}

// exp and functions based on it. The standard library's is not vectorized; these are, and for f32 are within two units
// in the last place. e^x = 2^k e^r with |r| <= ln2/2, e^r by its series.

inline float exp_of(float x) {
  x = std::min(std::max(x, -87.3F), 88.7F);
  const float k = std::nearbyint(x * 1.44269504F);
  const float r = (x - k * 0.693359375F) + k * 2.12194440e-4F;
  float p = 1.98756915e-4F;
  p = p * r + 1.39819995e-3F;
  p = p * r + 8.33345190e-3F;
  p = p * r + 4.16657962e-2F;
  p = p * r + 1.66666654e-1F;
  p = p * r + 0.5F;
  p = p * r * r + r + 1.0F;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(k) + 127) << 23);
}
inline double exp_of(double x) {
  return std::exp(x);
}

inline float tanh_of(float x) {
  const float e = exp_of(-2 * std::fabs(x));
  const float t = (1 - e) / (1 + e);
  // Near 0 the difference loses digits; x - x^3/3 + 2x^5/15 does not.
  const float near = x - x * x * x * (1.0F / 3) + x * x * x * x * x * (2.0F / 15);
  return std::fabs(x) < 0.05F ? near : std::copysign(t, x);
}
inline double tanh_of(double x) {
  return std::tanh(x);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
