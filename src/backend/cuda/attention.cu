// Attention without a library: a thread for each query (or key), with its vectors in registers, while a block shares tiles
// of keys and values (or queries) in shared memory. Sums have a fixed order. The formulas are those of
// graph/ops/attention.cpp; the backward makes one pass for each of dq, dv and dk, and recomputes the scores in each.
// q, k and v are separate tensors or parts of a packed one, in which the vectors of adjacent positions are a row apart.
#include <array>

#include "backend/cuda/elements.cuh"

namespace trireme::cuda {
namespace {

constexpr int kQueries = 128;  ///< threads of a block

/// Sizes of q[B,T,H,D] and k[B,S,G,D], and the constants.
struct Heads {
  std::int64_t b, t, h, d, s, g, r;
  double scale;
  bool causal;
  std::int64_t start;
  std::int64_t q_step, k_step;  ///< between the positions of q, and of k and v

  /// How many keys query t sees, starting with the first.
  __device__ std::int64_t seen(std::int64_t query) const {
    const std::int64_t last = query + 1 + start;
    return !causal ? s : last < 0 ? 0 : min(last, s);
  }
  __device__ std::int64_t query_at(std::int64_t batch, std::int64_t head,
                                   std::int64_t query) const {
    return (batch * t + query) * q_step + head * d;
  }
  __device__ std::int64_t key_at(std::int64_t batch, std::int64_t group, std::int64_t key) const {
    return (batch * s + key) * k_step + group * d;
  }
  /// In y and dy.
  __device__ std::int64_t result_at(std::int64_t batch, std::int64_t head,
                                    std::int64_t query) const {
    return ((batch * t + query) * h + head) * d;
  }
  __device__ std::int64_t lse_at(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    return (batch * h + head) * t + query;
  }
};

/// With each position's vectors `q_step` and `k_step` apart.
Heads heads_of(const KernelRequest& request, const Shape& query, const Shape& key,
               std::int64_t q_step, std::int64_t k_step) {
  const Signature s = signature_of(request);
  const double scale = s.number("scale");
  const auto& start = s.integers("start");
  return {.b = query.dim(0),
          .t = query.dim(1),
          .h = query.dim(2),
          .d = query.dim(3),
          .s = key.dim(1),
          .g = key.dim(2),
          .r = key.dim(2) == 0 ? 1 : query.dim(2) / key.dim(2),
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.dim(3))),
          .causal = s.flag("causal"),
          .start = start.empty() ? key.dim(1) - query.dim(1) : start.front(),
          .q_step = q_step,
          .k_step = k_step};
}

Heads heads_of(const KernelRequest& request, std::size_t q, std::size_t k) {
  const Shape& query = request.inputs[q].shape;
  const Shape& key = request.inputs[k].shape;
  return heads_of(request, query, key, query.dim(2) * query.dim(3), key.dim(2) * key.dim(3));
}

/// Of qkv[B,T,H+2G,D].
Heads packed_heads_of(const KernelRequest& request, std::size_t qkv) {
  const Shape& all = request.inputs[qkv].shape;
  const std::int64_t heads = signature_of(request).integer("heads");
  const std::int64_t groups = (all.dim(2) - heads) / 2;
  const std::int64_t step = all.dim(2) * all.dim(3);
  return heads_of(request, {all.dim(0), all.dim(1), heads, all.dim(3)},
                  {all.dim(0), all.dim(1), groups, all.dim(3)}, step, step);
}

/// q, k and v, or their gradients.
template <class T>
struct Operands {
  T* q;
  T* k;
  T* v;
};

/// In a packed tensor.
template <class T>
Operands<T> parts_of(T* packed, const Heads& n) {
  return {packed, packed + n.h * n.d, packed + (n.h + n.g) * n.d};
}

/// Vectors of a tile: 16 KB of shared memory for two of them.
template <class W, int kD>
inline constexpr int kTile = 8192 / (kD * static_cast<int>(sizeof(W)));

template <class T, int kD>
__device__ void read_vector(const T* from, std::int64_t size, Wide<T> (&to)[kD]) {
#pragma unroll
  for (int i = 0; i < kD; ++i) {
    to[i] = i < size ? load(from[i]) : Wide<T>{0};
  }
}

template <class T, int kD>
__device__ void write_vector(const Wide<T> (&from)[kD], std::int64_t size, T* to) {
#pragma unroll
  for (int i = 0; i < kD; ++i) {
    if (i < size) {
      to[i] = narrow<T>(from[i]);
    }
  }
}

template <class W, int kD>
__device__ W dot(const W (&a)[kD], const W* b) {
  W sum = 0;
#pragma unroll
  for (int i = 0; i < kD; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

template <class W, int kD>
__device__ void add_scaled(W factor, const W* from, W (&to)[kD]) {
#pragma unroll
  for (int i = 0; i < kD; ++i) {
    to[i] += factor * from[i];
  }
}

/// All threads of the block copy vectors begin, begin + 1, … of which the k-th is at address(k).
template <class T, int kD, class F>
__device__ void read_tile(std::int64_t count, std::int64_t size, F address, Wide<T> (*tile)[kD]) {
  for (int i = threadIdx.x; i < count * kD; i += kQueries) {
    const int row = i / kD;
    const int column = i % kD;
    tile[row][column] = column < size ? load(address(row)[column]) : Wide<T>{0};
  }
}

template <class T, int kD>
__global__ void __launch_bounds__(kQueries)
    forward_kernel(const T* q, const T* k, const T* v, T* y, Wide<T>* lse, Heads n) {
  using W = Wide<T>;
  constexpr int kKeys = kTile<W, kD>;
  __shared__ W keys[kKeys][kD];
  __shared__ W values[kKeys][kD];
  const std::int64_t query = std::int64_t{blockIdx.x} * kQueries + threadIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const std::int64_t group = head / n.r;
  const bool active = query < n.t;
  const std::int64_t seen = active ? n.seen(query) : 0;
  const std::int64_t block_seen =
      n.seen(min(n.t, std::int64_t{blockIdx.x + 1} * kQueries) - 1);  // the last query's
  W mine[kD];
  W sum[kD] = {};
  read_vector<T, kD>(q + n.query_at(batch, head, active ? query : 0), n.d, mine);
  W top = -INFINITY;
  W total = 0;
  for (std::int64_t begin = 0; begin < block_seen; begin += kKeys) {
    const std::int64_t count = min(std::int64_t{kKeys}, block_seen - begin);
    __syncthreads();
    read_tile<T, kD>(
        count, n.d, [&](int i) { return k + n.key_at(batch, group, begin + i); }, keys);
    read_tile<T, kD>(
        count, n.d, [&](int i) { return v + n.key_at(batch, group, begin + i); }, values);
    __syncthreads();
    for (int i = 0; i < count && begin + i < seen; ++i) {
      const W score = static_cast<W>(n.scale) * dot(mine, keys[i]);
      if (score > top) {
        const W shrink = exp(top - score);
        total *= shrink;
#pragma unroll
        for (int c = 0; c < kD; ++c) {
          sum[c] *= shrink;
        }
        top = score;
      }
      const W weight = exp(score - top);
      total += weight;
      add_scaled(weight, values[i], sum);
    }
  }
  if (active) {
    const W share = total > 0 ? 1 / total : W{0};
#pragma unroll
    for (int c = 0; c < kD; ++c) {
      sum[c] *= share;
    }
    write_vector<T, kD>(sum, n.d, y + n.result_at(batch, head, query));
    lse[n.lse_at(batch, head, query)] = total > 0 ? top + log(total) : static_cast<W>(-INFINITY);
  }
}

/// dy . y for each query.
template <class T>
struct Delta {
  const T* dy;
  const T* y;
  Wide<T>* delta;
  Heads n;
  __device__ void operator()(std::int64_t row, int lane) const {
    const std::int64_t query = row % n.t;
    const std::int64_t head = row / n.t % n.h;
    const std::int64_t at = n.result_at(row / n.t / n.h, head, query);
    Wide<T> sum = 0;
    for (std::int64_t i = lane; i < n.d; i += kWarp) {
      sum += load(dy[at + i]) * load(y[at + i]);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      delta[row] = sum;
    }
  }
};

template <class T, int kD>
__global__ void __launch_bounds__(kQueries)
    dq_kernel(const T* dy, const T* q, const T* k, const T* v, const Wide<T>* lse,
              const Wide<T>* delta, T* dq, Heads n) {
  using W = Wide<T>;
  constexpr int kKeys = kTile<W, kD>;
  __shared__ W keys[kKeys][kD];
  __shared__ W values[kKeys][kD];
  const std::int64_t query = std::int64_t{blockIdx.x} * kQueries + threadIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const std::int64_t group = head / n.r;
  const bool active = query < n.t;
  const std::int64_t seen = active ? n.seen(query) : 0;
  const std::int64_t block_seen = n.seen(min(n.t, std::int64_t{blockIdx.x + 1} * kQueries) - 1);
  const std::int64_t at = n.query_at(batch, head, active ? query : 0);
  const std::int64_t row = n.lse_at(batch, head, active ? query : 0);
  W mine[kD];
  W gradient[kD];
  W sum[kD] = {};
  read_vector<T, kD>(q + at, n.d, mine);
  read_vector<T, kD>(dy + n.result_at(batch, head, active ? query : 0), n.d, gradient);
  for (std::int64_t begin = 0; begin < block_seen; begin += kKeys) {
    const std::int64_t count = min(std::int64_t{kKeys}, block_seen - begin);
    __syncthreads();
    read_tile<T, kD>(
        count, n.d, [&](int i) { return k + n.key_at(batch, group, begin + i); }, keys);
    read_tile<T, kD>(
        count, n.d, [&](int i) { return v + n.key_at(batch, group, begin + i); }, values);
    __syncthreads();
    for (int i = 0; i < count && begin + i < seen; ++i) {
      const W p = exp(static_cast<W>(n.scale) * dot(mine, keys[i]) - lse[row]);
      const W ds = p * (dot(gradient, values[i]) - delta[row]);
      add_scaled(static_cast<W>(n.scale) * ds, keys[i], sum);
    }
  }
  if (active) {
    write_vector<T, kD>(sum, n.d, dq + at);
  }
}

/// A thread for each key, over the queries of all heads of its group. kValues: dv, else dk.
template <class T, int kD, bool kValues>
__global__ void __launch_bounds__(kQueries)
    dkv_kernel(const T* dy, const T* q, const T* k, const T* v, const Wide<T>* lse,
               const Wide<T>* delta, T* result, Heads n) {
  using W = Wide<T>;
  constexpr int kRows = kTile<W, kD>;
  __shared__ W queries[kRows][kD];
  __shared__ W gradients[kRows][kD];
  const std::int64_t first = std::int64_t{blockIdx.x} * kQueries;
  const std::int64_t key = first + threadIdx.x;
  const std::int64_t group = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const bool active = key < n.s;
  const std::int64_t at = n.key_at(batch, group, active ? key : 0);
  W mine[kD];
  W value[kD];
  W sum[kD] = {};
  read_vector<T, kD>(k + at, n.d, mine);
  if constexpr (!kValues) {
    read_vector<T, kD>(v + at, n.d, value);
  }
  // The first query that sees a key of this block.
  const std::int64_t first_query = n.causal ? max(std::int64_t{0}, first - n.start) : 0;
  for (std::int64_t head = group * n.r; head < (group + 1) * n.r; ++head) {
    for (std::int64_t begin = first_query; begin < n.t; begin += kRows) {
      const std::int64_t count = min(std::int64_t{kRows}, n.t - begin);
      __syncthreads();
      read_tile<T, kD>(
          count, n.d, [&](int i) { return q + n.query_at(batch, head, begin + i); }, queries);
      read_tile<T, kD>(
          count, n.d, [&](int i) { return dy + n.result_at(batch, head, begin + i); }, gradients);
      __syncthreads();
      for (int i = 0; i < count; ++i) {
        if (!active || key >= n.seen(begin + i)) {
          continue;
        }
        const std::int64_t row = n.lse_at(batch, head, begin + i);
        const W p = exp(static_cast<W>(n.scale) * dot(mine, queries[i]) - lse[row]);
        if constexpr (kValues) {
          add_scaled(p, gradients[i], sum);
        } else {
          const W ds = p * (dot(value, gradients[i]) - delta[row]);
          add_scaled(static_cast<W>(n.scale) * ds, queries[i], sum);
        }
      }
    }
  }
  if (active) {
    write_vector<T, kD>(sum, n.d, result + at);
  }
}

/// Calls f with T{} and the size of the registers for a head's vector; nothing for heads larger than 128.
template <class F>
std::optional<Launch> for_heads(DType dtype, std::int64_t d, F f) {
  return for_float(dtype, [&]<class T>(T element) -> std::optional<Launch> {
    if (d <= 64) {
      return f(element, std::integral_constant<int, 64>{});
    }
    return d <= 128 ? f(element, std::integral_constant<int, 128>{}) : std::nullopt;
  });
}

dim3 grid_of(std::int64_t rows, std::int64_t heads, std::int64_t batch) {
  return {blocks_for(rows, kQueries), static_cast<unsigned>(heads), static_cast<unsigned>(batch)};
}

template <class T, int kD>
void enqueue_forward(const Heads& n, const Operands<const T>& in, const KernelMemory& m,
                     cudaStream_t stream) {
  if (n.b * n.t * n.h > 0) {
    forward_kernel<T, kD><<<grid_of(n.t, n.h, n.b), kQueries, 0, stream>>>(
        in.q, in.k, in.v, output<T>(m, 0), output<Wide<T>>(m, 1), n);
    check(cudaGetLastError(), "launching attention");
  }
}

std::optional<Launch> prepare_attention(const KernelRequest& request) {
  const Heads n = heads_of(request, 0, 1);
  return for_heads(request.inputs[0].dtype, n.d,
                   [&]<class T, class D>(T, D) -> std::optional<Launch> {
                     return Launch{[n](const KernelMemory& m, cudaStream_t stream) {
                       enqueue_forward<T, D::value>(
                           n, {input<T>(m, 0), input<T>(m, 1), input<T>(m, 2)}, m, stream);
                     }};
                   });
}

std::optional<Launch> prepare_packed(const KernelRequest& request) {
  const Heads n = packed_heads_of(request, 0);
  return for_heads(request.inputs[0].dtype, n.d,
                   [&]<class T, class D>(T, D) -> std::optional<Launch> {
                     return Launch{[n](const KernelMemory& m, cudaStream_t stream) {
                       enqueue_forward<T, D::value>(n, parts_of(input<T>(m, 0), n), m, stream);
                     }};
                   });
}

/// dy, y and lse of the backward.
template <class T>
struct Results {
  const T* dy;
  const T* y;
  const Wide<T>* lse;
};

template <class T, int kD>
void enqueue_backward(const Heads& n, const Operands<const T>& in, const Results<T>& r,
                      const Operands<T>& out, std::byte* workspace, cudaStream_t stream) {
  auto* delta = reinterpret_cast<Wide<T>*>(workspace);
  enqueue_each_row(n.b * n.h * n.t, Delta<T>{r.dy, r.y, delta, n}, stream);
  if (n.b * n.t * n.h > 0) {
    dq_kernel<T, kD><<<grid_of(n.t, n.h, n.b), kQueries, 0, stream>>>(r.dy, in.q, in.k, in.v, r.lse,
                                                                      delta, out.q, n);
  }
  if (n.b * n.s * n.g > 0) {
    const dim3 grid = grid_of(n.s, n.g, n.b);
    dkv_kernel<T, kD, false>
        <<<grid, kQueries, 0, stream>>>(r.dy, in.q, in.k, in.v, r.lse, delta, out.k, n);
    dkv_kernel<T, kD, true>
        <<<grid, kQueries, 0, stream>>>(r.dy, in.q, in.k, in.v, r.lse, delta, out.v, n);
  }
  check(cudaGetLastError(), "launching attention_backward");
}

/// The memory for a delta of each query.
template <class T>
Bytes deltas_of(const Heads& n) {
  return {n.b * n.h * n.t * static_cast<std::int64_t>(sizeof(Wide<T>))};
}

std::optional<Launch> prepare_backward(const KernelRequest& request) {
  const Heads n = heads_of(request, 1, 2);
  return for_heads(request.inputs[1].dtype, n.d,
                   [&]<class T, class D>(T, D) -> std::optional<Launch> {
                     return Launch{.enqueue =
                                       [n](const KernelMemory& m, cudaStream_t stream) {
                                         enqueue_backward<T, D::value>(
                                             n, {input<T>(m, 1), input<T>(m, 2), input<T>(m, 3)},
                                             {input<T>(m, 0), input<T>(m, 4), input<Wide<T>>(m, 5)},
                                             {output<T>(m, 0), output<T>(m, 1), output<T>(m, 2)},
                                             m.workspace, stream);
                                       },
                                   .workspace = deltas_of<T>(n)};
                   });
}

std::optional<Launch> prepare_packed_backward(const KernelRequest& request) {
  const Heads n = packed_heads_of(request, 1);
  return for_heads(request.inputs[1].dtype, n.d,
                   [&]<class T, class D>(T, D) -> std::optional<Launch> {
                     return Launch{.enqueue =
                                       [n](const KernelMemory& m, cudaStream_t stream) {
                                         enqueue_backward<T, D::value>(
                                             n, parts_of(input<T>(m, 1), n),
                                             {input<T>(m, 0), input<T>(m, 2), input<Wide<T>>(m, 3)},
                                             parts_of(output<T>(m, 0), n), m.workspace, stream);
                                       },
                                   .workspace = deltas_of<T>(n)};
                   });
}

template <class T>
struct Merge {
  const T* y_a;
  const Wide<T>* lse_a;
  const T* y_b;
  const Wide<T>* lse_b;
  T* y;
  Wide<T>* lse;
  std::int64_t t, h, d;
  __device__ void operator()(std::int64_t vector, int lane) const {
    using W = Wide<T>;
    const std::int64_t head = vector % h;
    const std::int64_t query = vector / h % t;
    const std::int64_t row = (vector / h / t * h + head) * t + query;
    const W a = lse_a[row];
    const W b = lse_b[row];
    const W top = max(a, b);
    const bool none = top == static_cast<W>(-INFINITY);
    const W sum = none ? top : top + log(exp(a - top) + exp(b - top));
    const W share_a = none ? 0 : exp(a - sum);
    const W share_b = none ? 0 : exp(b - sum);
    for (std::int64_t i = vector * d + lane; i < (vector + 1) * d; i += kWarp) {
      y[i] = narrow<T>(share_a * load(y_a[i]) + share_b * load(y_b[i]));
    }
    __syncwarp();
    if (lane == 0) {
      lse[row] = sum;
    }
  }
};

std::optional<Launch> prepare_merge(const KernelRequest& request) {
  const Shape& y = request.inputs[0].shape;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) -> std::optional<Launch> {
    using W = Wide<T>;
    return Launch{[b = y.dim(0), t = y.dim(1), h = y.dim(2), d = y.dim(3)](const KernelMemory& m,
                                                                           cudaStream_t stream) {
      enqueue_each_row(b * t * h,
                       Merge<T>{input<T>(m, 0), input<W>(m, 1), input<T>(m, 2), input<W>(m, 3),
                                output<T>(m, 0), output<W>(m, 1), t, h, d},
                       stream);
    }};
  });
}

}  // namespace

std::span<const KernelRow> attention_kernels() {
  static constexpr std::array kRows{
      KernelRow{"attention", prepare_attention}, KernelRow{"attention_backward", prepare_backward},
      KernelRow{"attention_merge", prepare_merge}, KernelRow{"attention_packed", prepare_packed},
      KernelRow{"attention_packed_backward", prepare_packed_backward}};
  return kRows;
}

}  // namespace trireme::cuda
