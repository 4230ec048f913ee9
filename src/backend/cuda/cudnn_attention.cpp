// Attention with cuDNN, in 16 bits, as a graph of its operations, which the library recognizes and runs as one kernel.
// Forward and backward follow graph/ops/attention.cpp; all tensors keep our layout [B,T,H,D]. q, k and v are separate
// tensors or parts of a packed tensor, as described by strides and addresses.
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/tuning.h"

namespace trireme::cuda {
namespace {

using Dims = CudnnGraph::Dims;
using Tensor = CudnnGraph::Tensor;

constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

enum Id : std::int64_t {
  Q = 1,
  K,
  V,
  Y,
  Lse,
  Dy,
  Dq,
  Dk,
  Dv,
  Delta,
  DqSum,
  Scale,
  Minus,
  One,
  Start
};

/// Sizes of q[B,T,H,D] and k[B,S,G,D].
struct Heads {
  std::int64_t b, t, h, d, s, g;
  std::int64_t q_step, k_step;  ///< elements between the positions of q, and of k and v
  bool packed;                  ///< q, k and v are parts of one tensor
  bool causal;
  std::int32_t start;  ///< if causal: the position of the first query among the keys
  float scale;
  cudnnDataType_t type;
  bool deterministic;
  int device;
  auto operator<=>(const Heads&) const = default;

  // As [B,H,T,D], the order that the library expects.
  [[nodiscard]] Dims query_dims() const { return {b, h, t, d}; }
  [[nodiscard]] Dims query_strides() const { return {t * q_step, d, q_step, 1}; }
  [[nodiscard]] Dims result_strides() const { return {t * h * d, d, h * d, 1}; }
  [[nodiscard]] Dims key_dims() const { return {b, g, s, d}; }
  [[nodiscard]] Dims key_strides() const { return {s * k_step, d, k_step, 1}; }
  [[nodiscard]] Dims score_dims() const { return {b, h, t, s}; }
  [[nodiscard]] Dims score_strides() const { return {h * t * s, t * s, s, 1}; }
  [[nodiscard]] Dims row_dims() const { return {b, h, t, 1}; }
  [[nodiscard]] Dims row_strides() const { return {h * t, t, 1, 1}; }
};

Dims transposed(Dims dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

/// Builds the parts that forward and backward share.
class AttentionGraph : public CudnnGraph {
 public:
  explicit AttentionGraph(const Heads& n)
      : n_(n),
        query_(real(Q, n.query_dims(), n.query_strides(), n.type)),
        keys_(real(K, transposed(n.key_dims()), transposed(n.key_strides()), n.type)),
        lse_(real(Lse, n.row_dims(), n.row_strides(), kFloat)),
        scale_(scalar(Scale)) {}

  [[nodiscard]] Plans forward(const Proposals& wanted) {
    const Tensor values = real(V, n_.key_dims(), n_.key_strides(), n_.type);
    const Tensor y = real(Y, n_.query_dims(), n_.result_strides(), n_.type);
    const Tensor seen = masked(scaled_scores());
    const Tensor top = row();
    const Tensor shifted = scores();
    const Tensor powers = scores();
    const Tensor sum = row();
    const Tensor log_sum = row();
    const Tensor weights = scores(n_.type);
    reduce(CUDNN_REDUCE_TENSOR_MAX, seen, top);
    binary(CUDNN_POINTWISE_SUB, seen, top, shifted);
    unary(CUDNN_POINTWISE_EXP, shifted, powers);
    reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    unary(CUDNN_POINTWISE_LOG, sum, log_sum);
    binary(CUDNN_POINTWISE_ADD, top, log_sum, lse_);
    binary(CUDNN_POINTWISE_DIV, powers, sum, weights);
    matmul(weights, values, y);
    return compile(wanted);
  }

  [[nodiscard]] Plans backward(const Proposals& wanted) {
    const Tensor dy = real(Dy, n_.query_dims(), n_.result_strides(), n_.type);
    const Tensor values = real(V, transposed(n_.key_dims()), transposed(n_.key_strides()), n_.type);
    const Tensor delta = delta_of(dy);
    const Tensor less = scores();
    binary(CUDNN_POINTWISE_SUB, scaled_scores(), lse_, less);
    const Tensor weights = scores();
    unary(CUDNN_POINTWISE_EXP, masked(less), weights);
    to_keys(turned(weights), dy, real(Dv, n_.key_dims(), n_.key_strides(), n_.type));
    const Tensor dweights = scores();
    const Tensor centered = scores();
    const Tensor product = scores();
    const Tensor dscores = scores();
    matmul(dy, values, dweights);
    binary(CUDNN_POINTWISE_SUB, dweights, delta, centered);
    binary(CUDNN_POINTWISE_MUL, centered, weights, product);
    binary(CUDNN_POINTWISE_MUL, product, scale_, dscores);
    to_keys(turned(dscores), query_, real(Dk, n_.key_dims(), n_.key_strides(), n_.type));
    to_queries(dscores);
    return compile(wanted);
  }

 private:
  Tensor scores(cudnnDataType_t type = kFloat) {
    return between(n_.score_dims(), n_.score_strides(), type);
  }
  Tensor row() { return between(n_.row_dims(), n_.row_strides(), kFloat); }

  Tensor scaled_scores() {
    const Tensor products = scores();
    Tensor scaled = scores();
    matmul(query_, keys_, products);
    binary(CUDNN_POINTWISE_MUL, products, scale_, scaled);
    return scaled;
  }

  /// Minus infinity where a query does not see the key.
  Tensor masked(const Tensor& x) {
    if (!n_.causal) {
      return x;
    }
    Tensor query = between_like(x, CUDNN_DATA_INT32);
    const Tensor key = between_like(x, CUDNN_DATA_INT32);
    const Tensor sees = between_like(x, CUDNN_DATA_BOOLEAN);
    Tensor seen = scores();
    index(x, 2, query);
    index(x, 3, key);
    if (n_.start != 0) {
      const Tensor position = between_like(x, CUDNN_DATA_INT32);
      binary(CUDNN_POINTWISE_ADD, query, scalar(Start, CUDNN_DATA_INT32), position,
             CUDNN_DATA_INT32);
      query = position;
    }
    binary(CUDNN_POINTWISE_CMP_GE, query, key, sees, CUDNN_DATA_BOOLEAN);
    select(sees, x, scalar(Minus), seen);
    return seen;
  }

  /// dy . y of each query, in memory: later operations read it for every key.
  Tensor delta_of(const Tensor& dy) {
    const Tensor y = real(Y, n_.query_dims(), n_.result_strides(), n_.type);
    const Tensor products =
        between(n_.query_dims(), {n_.h * n_.t * n_.d, n_.t * n_.d, n_.h * n_.d, 1}, kFloat);
    const Tensor sum = row();
    Tensor delta = real(Delta, n_.row_dims(), n_.row_strides(), kFloat);
    binary(CUDNN_POINTWISE_MUL, dy, y, products);
    reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
    binary(CUDNN_POINTWISE_MUL, sum, scalar(One), delta);
    return delta;
  }

  Tensor turned(const Tensor& x) {
    Tensor result =
        between({n_.b, n_.h, n_.s, n_.t}, {n_.h * n_.t * n_.s, n_.t * n_.s, 1, n_.s}, n_.type);
    reshape(x, result);
    return result;
  }

  /// y = x b, summed over the heads that share a key.
  void to_keys(const Tensor& x, const Tensor& b, const Tensor& y) {
    if (n_.g == n_.h) {
      matmul(x, b, y);
      return;
    }
    const Tensor by_head =
        between({n_.b, n_.h, n_.s, n_.d}, {n_.h * n_.s * n_.d, n_.s * n_.d, n_.d, 1}, n_.type);
    matmul(x, b, by_head);
    reduce(CUDNN_REDUCE_TENSOR_ADD, by_head, y);
  }

  /// dq = dscores k, accumulated in f32 in memory, in any order, unless the result must be deterministic.
  void to_queries(const Tensor& dscores) {
    const Tensor keys = between(n_.key_dims(), n_.key_strides(), n_.type);
    const Tensor dq = real(Dq, n_.query_dims(), n_.query_strides(), n_.type);
    reshape(keys_, keys);
    if (n_.deterministic) {
      matmul(dscores, keys, dq);
      return;
    }
    const Tensor sum =
        real(DqSum, n_.query_dims(), {n_.h * n_.t * n_.d, n_.t * n_.d, n_.d, 1}, kFloat);
    matmul(dscores, keys, sum);
    unary(CUDNN_POINTWISE_IDENTITY, sum, dq);
  }

  Heads n_;
  Tensor query_;
  Tensor keys_;
  Tensor lse_;
  Tensor scale_;
};

/// The types and shapes of q and k; packed: both in the tensor of q.
struct Operands {
  DType dtype;
  Shape query;
  Shape key;
  bool packed = false;
};

Operands operands_of(const KernelRequest& request, std::size_t q, std::size_t k) {
  return {request.inputs[q].dtype, request.inputs[q].shape, request.inputs[k].shape};
}

/// Of qkv[B,T,H+2G,D].
Operands packed_operands_of(const KernelRequest& request, std::size_t qkv) {
  const Shape& all = request.inputs[qkv].shape;
  const std::int64_t heads = signature_of(request).integer("heads");
  return {request.inputs[qkv].dtype,
          {all.dim(0), all.dim(1), heads, all.dim(3)},
          {all.dim(0), all.dim(1), (all.dim(2) - heads) / 2, all.dim(3)},
          true};
}

/// nullopt if the library is missing or does not support the case.
std::optional<Heads> heads_of(const KernelRequest& request, const Operands& operands) {
  const auto& [dtype, query, key, packed] = operands;
  const Signature s = signature_of(request);
  const auto& start = s.integers("start");
  const bool narrow = dtype == DType::BF16 || dtype == DType::F16;
  const std::int64_t first = start.empty() ? key.dim(1) - query.dim(1) : start.front();
  const bool causal = s.flag("causal") && first < key.dim(1) - 1;  // else each query sees all keys
  const bool all_see = !causal || first >= 0;  // without a visible key, the softmax is undefined
  if (cudnn() == nullptr || !narrow || !all_see || query.element_count() == 0 ||
      key.element_count() == 0 || query.dim(3) % 8 != 0 || query.dim(3) > 128) {
    return std::nullopt;
  }
  const double scale = s.number("scale");
  const std::int64_t all = packed ? query.dim(2) + 2 * key.dim(2) : 0;
  Heads heads{
      query.dim(0),
      query.dim(1),
      query.dim(2),
      query.dim(3),
      key.dim(1),
      key.dim(2),
      (packed ? all : query.dim(2)) * query.dim(3),
      (packed ? all : key.dim(2)) * key.dim(3),
      packed,
      causal,
      causal ? static_cast<std::int32_t>(first) : 0,
      static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.dim(3)))),
      dtype == DType::BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
      !times_algorithms(),
      0};
  check(cudaGetDevice(&heads.device), "finding the current device");
  return heads;
}

/// q, k and v, or their gradients, starting at this operand.
template <class Byte>
std::array<Byte*, 3> parts_of(const Heads& n, std::span<Byte* const> operands) {
  if (!n.packed) {
    return {operands[0], operands[1], operands[2]};
  }
  const std::int64_t head = n.d * 2;  // bytes: 16-bit elements
  return {operands[0], operands[0] + n.h * head, operands[0] + (n.h + n.g) * head};
}

/// Scalars in host memory, which must live as long as the kernel.
struct Constants {
  float scale = 1;
  float minus = -std::numeric_limits<float>::infinity();
  float one = 1;
  std::int32_t start = 0;
};

std::shared_ptr<const Constants> constants_of(const Heads& heads) {
  constexpr std::size_t kTakesInfinity =
      91000;  // cuDNN 9.10; a large number yields the same weights
  Constants constants{.scale = heads.scale, .start = heads.start};
  if (cudnn()->version() < kTakesInfinity) {
    constants.minus = std::numeric_limits<float>::lowest();
  }
  return std::make_shared<const Constants>(constants);
}

using Plan = std::shared_ptr<const CudnnPlan>;

Launch forward_launch(const Heads& heads, const Plan& plan) {
  const auto constants = constants_of(heads);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const auto [q, k, v] = parts_of(heads, std::span(m.inputs));
                plan->enqueue({{Q, q},
                               {K, k},
                               {V, v},
                               {Y, m.outputs[0]},
                               {Lse, m.outputs[1]},
                               {Scale, &constants->scale},
                               {Minus, &constants->minus},
                               {Start, &constants->start}},
                              m.workspace, stream);
              },
          .workspace = {plan->workspace()}};
}

Launch backward_launch(const Heads& heads, const Plan& plan) {
  const auto constants = constants_of(heads);
  const auto rounded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::int64_t rows = rounded(heads.b * heads.h * heads.t * 4);
  const std::int64_t sums =
      heads.deterministic ? 0 : rounded(heads.b * heads.h * heads.t * heads.d * 4);
  return {.enqueue =
              [=](const KernelMemory& m, cudaStream_t stream) {
                const auto [q, k, v] = parts_of(heads, std::span(m.inputs).subspan(1));
                const auto [dq, dk, dv] = parts_of(heads, std::span(m.outputs));
                const std::size_t y = heads.packed ? 2 : 4;
                CudnnPlan::Addresses addresses{{Dy, m.inputs[0]},
                                               {Q, q},
                                               {K, k},
                                               {V, v},
                                               {Y, m.inputs[y]},
                                               {Lse, m.inputs[y + 1]},
                                               {Dq, dq},
                                               {Dk, dk},
                                               {Dv, dv},
                                               {Delta, m.workspace},
                                               {Scale, &constants->scale},
                                               {Minus, &constants->minus},
                                               {One, &constants->one},
                                               {Start, &constants->start}};
                if (sums > 0) {
                  addresses.emplace_back(DqSum, m.workspace + rows);
                }
                plan->enqueue(addresses, m.workspace + rows + sums, stream);
              },
          .workspace = {rows + sums + plan->workspace()}};
}

/// Forward or backward: its plans, and the kernel of one.
struct Direction {
  CudnnGraph::Plans (AttentionGraph::*plans)(const CudnnGraph::Proposals&);
  Launch (*launch)(const Heads&, const Plan&);
};

std::string key_of(const Heads& n, const KernelRequest& request) {
  return fmt::format("{}, cuDNN {}: {} q {} {} {} {} k {} {} type {}{}{}", device_name(),
                     cudnn()->version(), request.op->name, n.b, n.t, n.h, n.d, n.s, n.g,
                     static_cast<int>(n.type),
                     n.start != 0 ? " offset"
                     : n.causal   ? " causal"
                                  : "",
                     n.deterministic ? " deterministic" : "");
}

Plan fastest_plan(const Heads& heads, const Direction& direction, const CudnnGraph::Plans& plans,
                  const KernelRequest& request) {
  std::vector<Launch> launches;
  for (const Plan& plan : plans) {
    launches.push_back(direction.launch(heads, plan));
  }
  return plans[fastest_launch(launches, request)];
}

/// Whether a faster plan is worth the seconds that finding it takes.
bool is_timed(const Heads& n) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 19U;  // elements
  return times_algorithms() && n.b * n.t * n.h * n.d >= kSmall;
}

/// The cached plan, else the fastest of the library's first proposals, which is then cached. nullptr: there is none.
Plan choose_plan(const Heads& heads, const Direction& direction, const KernelRequest& request) {
  constexpr std::size_t kTimed = 8;
  const auto compiled = [&](const CudnnGraph::Proposals& wanted) {
    AttentionGraph graph(heads);
    return (graph.*direction.plans)(wanted);
  };
  const std::string key = key_of(heads, request);
  if (const auto kept = kept_algorithm(key)) {
    const auto number = static_cast<std::int64_t>(kept->front());
    CudnnGraph::Plans found = compiled({.first = number, .deterministic = heads.deterministic});
    if (!found.empty() && found.front()->proposal() == number) {
      return found.front();
    }
  }
  CudnnGraph::Plans plans =
      compiled({.most = is_timed(heads) ? kTimed : 1, .deterministic = heads.deterministic});
  if (plans.empty() || !is_timed(heads)) {
    return plans.empty() ? nullptr : plans.front();
  }
  Plan best = fastest_plan(heads, direction, plans, request);
  keep_algorithm(key, {static_cast<std::uint64_t>(best->proposal())});
  return best;
}

/// Chosen once for each shape.
Plan plan_of(const Heads& heads, const Direction& direction, const KernelRequest& request) {
  static std::mutex mutex;
  static std::map<std::pair<Heads, std::string_view>, Plan> plans;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = plans.try_emplace({heads, request.op->name});
  if (is_new) {
    found->second = choose_plan(heads, direction, request);
  }
  return found->second;
}

std::optional<Launch> prepare(const std::optional<Heads>& heads, const Direction& direction,
                              const KernelRequest& request) {
  const Plan plan = heads ? plan_of(*heads, direction, request) : nullptr;
  return plan == nullptr ? std::nullopt : std::optional(direction.launch(*heads, plan));
}

constexpr Direction kForward{&AttentionGraph::forward, forward_launch};
constexpr Direction kBackward{&AttentionGraph::backward, backward_launch};

std::optional<Launch> prepare_forward(const KernelRequest& request) {
  return prepare(heads_of(request, operands_of(request, 0, 1)), kForward, request);
}
std::optional<Launch> prepare_backward(const KernelRequest& request) {
  return prepare(heads_of(request, operands_of(request, 1, 2)), kBackward, request);
}
std::optional<Launch> prepare_packed(const KernelRequest& request) {
  return prepare(heads_of(request, packed_operands_of(request, 0)), kForward, request);
}
std::optional<Launch> prepare_packed_backward(const KernelRequest& request) {
  return prepare(heads_of(request, packed_operands_of(request, 1)), kBackward, request);
}

}  // namespace

std::span<const KernelRow> cudnn_kernels() {
  static constexpr std::array kRows{
      KernelRow{"attention", prepare_forward}, KernelRow{"attention_backward", prepare_backward},
      KernelRow{"attention_packed", prepare_packed},
      KernelRow{"attention_packed_backward", prepare_packed_backward}};
  return kRows;
}

}  // namespace trireme::cuda
