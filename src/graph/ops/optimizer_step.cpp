#include "graph/ops/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/op_rules.h"

namespace trireme::ops {
namespace {

void require_scalar(const Signature& s, std::size_t input) {
  const TensorType& type = s.inputs[input];
  const std::string_view name = s.op->inputs[input];
  if (name == "step") {
    s.require(type == TensorType{DType::I64, {}}, "step must be i64[]");
    return;
  }
  const bool all_f64 = s.inputs[0].dtype == DType::F64 && s.inputs[1].dtype == DType::F64;
  s.require(
      type.shape.rank() == 0 && (type.dtype == DType::F32 || (type.dtype == DType::F64 && all_f64)),
      fmt::format("{} must be f32[]", name));
}

}  // namespace

bool is_optimizer_step(const Node& node) {
  const auto& inputs = node.op->inputs;
  return inputs.size() > 1 && inputs[0] == "p" && inputs[1] == "g";
}

std::vector<TensorType> infer_optimizer_step(const Signature& s) {
  const TensorType& p = s.inputs[0];
  rules::require_float(s, 0);
  const TensorType& g = s.inputs[1];
  const bool narrow = p.dtype == DType::F32 && (g.dtype == DType::BF16 || g.dtype == DType::F16);
  s.require(g.shape == p.shape && (g.dtype == p.dtype || g.dtype == DType::F32 || narrow),
            "g must have p's shape and p's type or f32; of p in f32 it may be bf16 or f16");
  const TensorType state{rules::statistics_type(p.dtype), p.shape};
  std::vector<TensorType> results{p};
  std::size_t input = 2;
  for (; input <= s.op->outputs.size(); ++input) {
    s.require(s.inputs[input] == state,
              fmt::format("{} must be {}", s.op->inputs[input], to_text(state)));
    results.push_back(state);
  }
  for (; input < s.inputs.size(); ++input) {
    require_scalar(s, input);
  }
  return results;
}

bool keeps_old(std::span<const Dense> in, std::span<Dense> out) {
  const double g_scale = in.back().data[0];
  if (g_scale != 0 && std::isfinite(g_scale)) {
    return false;
  }
  out[0] = in[0];
  std::copy_n(in.begin() + 2, out.size() - 1, out.begin() + 1);
  return true;
}

}  // namespace trireme::ops
