#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cpu/kernel.h"
#include "graph/evaluate.h"
#include "trireme/error.h"

namespace trireme::cpu {
namespace {

template <class T, class F>
void widen(const std::byte* from, Dense& to, F f) {
  const T* elements = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < to.data.size(); ++i) {
    to.data[i] = f(elements[i]);
  }
}

template <class T, class F>
void narrow(const Dense& from, std::byte* to, F f) {
  T* elements = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < from.data.size(); ++i) {
    elements[i] = f(from.data[i]);
  }
}

template <class T>
double plain(T value) {
  return static_cast<double>(value);
}

Dense read(const TensorType& type, const std::byte* from) {
  Dense values(type.shape);
  const auto half = [](auto value) { return static_cast<double>(to_f32(value)); };
  switch (type.dtype) {
    case DType::F32:
      widen<float>(from, values, plain<float>);
      break;
    case DType::F64:
      widen<double>(from, values, plain<double>);
      break;
    case DType::F16:
      widen<Float16>(from, values, half);
      break;
    case DType::BF16:
      widen<BFloat16>(from, values, half);
      break;
    case DType::I8:
      widen<std::int8_t>(from, values, plain<std::int8_t>);
      break;
    case DType::U8:
      widen<std::uint8_t>(from, values, plain<std::uint8_t>);
      break;
    case DType::I32:
      widen<std::int32_t>(from, values, plain<std::int32_t>);
      break;
    case DType::I64:
      widen<std::int64_t>(from, values, plain<std::int64_t>);
      break;
  }
  return values;
}

void write(const TensorType& type, const Dense& values, std::byte* to) {
  switch (type.dtype) {
    case DType::F32:
      return narrow<float>(values, to, [](double v) { return static_cast<float>(v); });
    case DType::F64:
      return narrow<double>(values, to, [](double v) { return v; });
    case DType::F16:
      return narrow<Float16>(values, to, [](double v) { return to_f16(static_cast<float>(v)); });
    case DType::BF16:
      return narrow<BFloat16>(values, to, [](double v) { return to_bf16(static_cast<float>(v)); });
    case DType::I8:
      return narrow<std::int8_t>(values, to, [](double v) { return static_cast<std::int8_t>(v); });
    case DType::U8:
      return narrow<std::uint8_t>(values, to,
                                  [](double v) { return static_cast<std::uint8_t>(v); });
    case DType::I32:
      return narrow<std::int32_t>(values, to,
                                  [](double v) { return static_cast<std::int32_t>(v); });
    case DType::I64:
      return narrow<std::int64_t>(values, to,
                                  [](double v) { return static_cast<std::int64_t>(v); });
  }
}

constexpr std::string_view kAlways = "always";
constexpr std::string_view kIntegers = "integers";
constexpr std::string_view kSmallIds = "indices or targets of a type that has no loop";
constexpr std::string_view kMixed = "x and its scale of different types";
constexpr std::string_view kShape = "more loops than the kernel has";

constexpr std::array kUses{
    ReferenceUse{"broadcast", kShape},
    ReferenceUse{"cast", kIntegers},
    ReferenceUse{"concat", kShape},
    ReferenceUse{"cross_entropy", kSmallIds},
    ReferenceUse{"cross_entropy_backward", kSmallIds},
    ReferenceUse{"cross_entropy_sums", kSmallIds},
    ReferenceUse{"cross_entropy_sums_backward", kSmallIds},
    ReferenceUse{"einsum", kShape},
    ReferenceUse{"embedding", kSmallIds},
    ReferenceUse{"embedding_backward", kSmallIds},
    ReferenceUse{"expert_combine", kSmallIds},
    ReferenceUse{"expert_combine_backward", kSmallIds},
    ReferenceUse{"expert_dispatch", kSmallIds},
    ReferenceUse{"expert_load", kSmallIds},
    ReferenceUse{"expert_slots", kSmallIds},
    ReferenceUse{"fill", kIntegers},
    ReferenceUse{"fused", kShape},
    ReferenceUse{"gather_rows", kSmallIds},
    ReferenceUse{"layer_norm", kMixed},
    ReferenceUse{"layer_norm_backward", kMixed},
    ReferenceUse{"orthonormal", kAlways},
    ReferenceUse{"pad", kShape},
    ReferenceUse{"permute", kShape},
    ReferenceUse{"reduce_max", kShape},
    ReferenceUse{"reduce_sum", kShape},
    ReferenceUse{"rms_norm", kMixed},
    ReferenceUse{"rms_norm_backward", kMixed},
    ReferenceUse{"scatter_rows", kSmallIds},
    ReferenceUse{"slice", kShape},
    ReferenceUse{"top_k_backward", kSmallIds},
};

void require_listed(const KernelRequest& request) {
  if (std::ranges::find(kUses, request.op->name, &ReferenceUse::op) != kUses.end()) {
    return;
  }
  std::vector<std::string> types;
  for (const TensorType& type : request.inputs) {
    types.push_back(to_text(type));
  }
  throw Error(ErrorKind::Usage, fmt::format("the CPU has no kernel for {}({})", request.op->name,
                                            fmt::join(types, ", ")));
}

}  // namespace

std::span<const ReferenceUse> reference_uses() {
  return kUses;
}

std::unique_ptr<PreparedKernel> reference_kernel(const KernelRequest& request) {
  require_listed(request);
  return kernel([request](const KernelMemory& memory) {
    std::vector<Dense> inputs;
    for (std::size_t k = 0; k < request.inputs.size(); ++k) {
      inputs.push_back(read(request.inputs[k], memory.inputs[k]));
    }
    const std::vector<Dense> results = evaluate(signature_of(request), inputs);
    for (std::size_t k = 0; k < results.size(); ++k) {
      write(request.outputs[k], results[k], memory.outputs[k]);
    }
  });
}

}  // namespace trireme::cpu
