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

constexpr std::string_view kAlways = "always";
constexpr std::string_view kIntegers = "integers";
constexpr std::string_view kSmallIds = "indices or targets of a type that has no loop";
constexpr std::string_view kMixed = "x and its scale of different types";
constexpr std::string_view kFused = "always: graphs are fused like this only for accelerators";
constexpr std::string_view kShape = "too many loops for the kernel";

constexpr std::array kUses{
    ReferenceUse{"adamw_rounded", kFused},
    ReferenceUse{"attention_at", kSmallIds},
    ReferenceUse{"attention_packed", kFused},
    ReferenceUse{"attention_packed_backward", kFused},
    ReferenceUse{"broadcast", kShape},
    ReferenceUse{"cache_write", kSmallIds},
    ReferenceUse{"cast", kIntegers},
    ReferenceUse{"classifier", kFused},
    ReferenceUse{"concat", kShape},
    ReferenceUse{"cross_entropy", kSmallIds},
    ReferenceUse{"cross_entropy_backward", kSmallIds},
    ReferenceUse{"cross_entropy_sums", kSmallIds},
    ReferenceUse{"cross_entropy_sums_backward", kSmallIds},
    ReferenceUse{"einsum", kShape},
    ReferenceUse{"einsum_add", kFused},
    ReferenceUse{"einsum_bias", kFused},
    ReferenceUse{"einsum_bias_add", kFused},
    ReferenceUse{"einsum_bias_gelu", kFused},
    ReferenceUse{"einsum_gelu_backward", kFused},
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
    ReferenceUse{"layer_norm_backward_add", kFused},
    ReferenceUse{"orthonormal", kAlways},
    ReferenceUse{"pad", kShape},
    ReferenceUse{"permute", kShape},
    ReferenceUse{"reduce_max", kShape},
    ReferenceUse{"reduce_sum", kShape},
    ReferenceUse{"rms_norm", kMixed},
    ReferenceUse{"rms_norm_backward", kMixed},
    ReferenceUse{"rms_norm_backward_add", kFused},
    ReferenceUse{"rope_at", kSmallIds},
    ReferenceUse{"scatter_rows", kSmallIds},
    ReferenceUse{"slice", kShape},
    ReferenceUse{"top_k_backward", kSmallIds},
};

void require_listed(const KernelRequest& request) {
  if (!is_built_in(*request.op) ||
      std::ranges::find(kUses, request.op->name, &ReferenceUse::op) != kUses.end()) {
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
    run_reference({.op = *request.op,
                   .attributes = request.attributes,
                   .inputs = request.inputs,
                   .outputs = request.outputs},
                  memory.inputs, memory.outputs);
  });
}

}  // namespace trireme::cpu
