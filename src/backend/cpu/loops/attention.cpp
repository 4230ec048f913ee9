// Attention in blocks of queries and keys: the full matrix of scores is never in memory.
//
// Forward, for each head and block of queries: over the blocks of keys that it may see, the scores S = Q K^T,
// the running maximum m and sum l of each row, and y = y e^(m_old - m) + e^(S - m) V; at the end y / l and
// lse = m + ln l (Milakov and Gimelshein 2018; Dao et al. 2022).
// Backward, for each pair of a block of queries and a block of keys, with D = rows' sums of dy y:
//   P = e^(S - lse),  dV += P^T dY,  dS = P (dY V^T - D),  dQ += dS K,  dK += dS^T Q
// Merging two results: shares e^(lse_a - lse) and e^(lse_b - lse) of each row.
#include <limits>

#include "backend/cpu/loops/block_gemm.h"
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kQueries = 32;
constexpr std::int64_t kKeys = 64;

struct Sizes {
  std::int64_t batch, queries, keys, heads, groups, depth;
  bool causal;
  double scale;
  std::int64_t start;                       ///< the position of the first query among the keys
  const std::int32_t* positions = nullptr;  ///< of the queries of one sequence, in place of `start`

  [[nodiscard]] std::int64_t heads_per_group() const { return heads / groups; }
  /// How many keys query t sees.
  [[nodiscard]] std::int64_t visible(std::int64_t t) const {
    const std::int64_t last = positions == nullptr ? t + start : positions[t];
    return causal ? std::clamp(last + 1, std::int64_t{0}, keys) : keys;
  }
  /// How many keys any of these queries sees.
  [[nodiscard]] std::int64_t visible(std::int64_t first, std::int64_t rows) const {
    std::int64_t most = visible(first + rows - 1);
    for (std::int64_t r = 0; positions != nullptr && r < rows; ++r) {
      most = std::max(most, visible(first + r));
    }
    return most;
  }
};

Sizes sizes_of(const KernelRequest& request, std::size_t q) {
  const Signature s = signature_of(request);
  const Shape& query = s.shape(q);
  const Shape& key = s.shape(q + 1);
  Sizes sizes{.batch = query.dim(0),
              .queries = query.dim(1),
              .keys = key.dim(1),
              .heads = query.dim(2),
              .groups = key.dim(2),
              .depth = query.dim(3),
              .causal = s.flag("causal"),
              .scale = s.number("scale"),
              .start = s.integers("start").empty() ? key.dim(1) - query.dim(1)
                                                   : s.integers("start").front()};
  if (sizes.scale == 0) {
    sizes.scale = 1 / std::sqrt(static_cast<double>(sizes.depth));
  }
  return sizes;
}

/// One head of [B,T,H,D] as contiguous rows.
template <class T, class W>
void take_head(const T* from, std::int64_t stride, W* to, std::int64_t rows, std::int64_t depth) {
  for (std::int64_t t = 0; t < rows; ++t) {
#pragma omp simd
    for (std::int64_t d = 0; d < depth; ++d) {
      to[t * depth + d] = load(from[t * stride + d]);
    }
  }
}

template <class T, class W>
void take_head_transposed(const T* from, std::int64_t stride, Block<W> to, std::int64_t rows,
                          std::int64_t depth) {
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t d = 0; d < depth; ++d) {
      to.data[d * to.stride + t] = load(from[t * stride + d]);
    }
  }
}

template <class T, class W>
void put_head(const W* from, T* to, std::int64_t stride, std::int64_t rows, std::int64_t depth) {
  for (std::int64_t t = 0; t < rows; ++t) {
#pragma omp simd
    for (std::int64_t d = 0; d < depth; ++d) {
      store(to[t * stride + d], from[t * depth + d]);
    }
  }
}

/// A block of queries and a block of keys.
struct Pair {
  std::int64_t first;  ///< query
  std::int64_t rows;
  std::int64_t key;  ///< the first
  std::int64_t keys;
};

/// S[rows, keys] = scale Q K^T for keys from `key`; masked scores are minus infinity.
template <class W>
void scores(const Sizes& z, const W* q, const W* keys_transposed, W* s, const Pair& pair) {
  const std::int64_t rows = pair.rows;
  const std::int64_t key = pair.key;
  const std::int64_t keys = pair.keys;
  std::fill(s, s + rows * kKeys, W{0});
  multiply_add<false>(Block<const W>{q, z.depth}, Block<const W>{keys_transposed + key, z.keys},
                      Block<W>{s, kKeys}, rows, keys, z.depth);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t seen = std::clamp(z.visible(pair.first + r) - key, std::int64_t{0}, keys);
#pragma omp simd
    for (std::int64_t k = 0; k < keys; ++k) {
      s[r * kKeys + k] *= static_cast<W>(z.scale);
    }
    std::fill(s + r * kKeys + seen, s + r * kKeys + keys, -std::numeric_limits<W>::infinity());
  }
}

/// One thread's scratch for the forward.
template <class W>
struct ForwardRoom {
  W* keys;    // [D, S]
  W* values;  // [S, D]
  W* query;   // [kQueries, D]
  W* result;  // [kQueries, D]
  W* scores;  // [kQueries, kKeys]

  static std::int64_t size(const Sizes& z) {
    return 2 * z.keys * z.depth + 2 * kQueries * z.depth + kQueries * kKeys;
  }
  ForwardRoom(W* at, const Sizes& z)
      : keys(at),
        values(keys + z.keys * z.depth),
        query(values + z.keys * z.depth),
        result(query + kQueries * z.depth),
        scores(result + kQueries * z.depth) {}
};

/// One row of a block of scores: becomes e^(s - m), with the running maximum and sum; rescales the partial result to
/// the new maximum.
template <class W>
void softmax_row(W* s, std::int64_t keys, W& maximum, W& sum, W* result, std::int64_t depth) {
  W largest = maximum;
#pragma omp simd reduction(max : largest)
  for (std::int64_t k = 0; k < keys; ++k) {
    largest = s[k] > largest ? s[k] : largest;
  }
  if (largest == -std::numeric_limits<W>::infinity()) {
    std::fill(s, s + keys, W{0});
    return;
  }
  W more = 0;
#pragma omp simd reduction(+ : more)
  for (std::int64_t k = 0; k < keys; ++k) {
    const W e = s[k] == -std::numeric_limits<W>::infinity() ? W{0} : exp_of(s[k] - largest);
    s[k] = e;
    more += e;
  }
  const W shrink =
      maximum == -std::numeric_limits<W>::infinity() ? W{0} : exp_of(maximum - largest);
  sum = sum * shrink + more;
  maximum = largest;
#pragma omp simd
  for (std::int64_t d = 0; d < depth; ++d) {
    result[d] *= shrink;
  }
}

template <class W>
void attend_block(const Sizes& z, const ForwardRoom<W>& room, std::int64_t first, std::int64_t rows,
                  W* lse) {
  W maximum[kQueries];
  W sum[kQueries];
  std::fill(maximum, maximum + kQueries, -std::numeric_limits<W>::infinity());
  std::fill(sum, sum + kQueries, W{0});
  std::fill(room.result, room.result + rows * z.depth, W{0});
  for (std::int64_t key = 0; key < z.visible(first, rows); key += kKeys) {
    const std::int64_t keys = std::min(kKeys, z.keys - key);
    scores(z, room.query, room.keys, room.scores, {first, rows, key, keys});
    for (std::int64_t r = 0; r < rows; ++r) {
      softmax_row(room.scores + r * kKeys, keys, maximum[r], sum[r], room.result + r * z.depth,
                  z.depth);
    }
    multiply_add<false>(Block<const W>{room.scores, kKeys},
                        Block<const W>{room.values + key * z.depth, z.depth},
                        Block<W>{room.result, z.depth}, rows, z.depth, keys);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const W share = sum[r] > 0 ? 1 / sum[r] : W{0};
    for (std::int64_t d = 0; d < z.depth; ++d) {
      room.result[r * z.depth + d] *= share;
    }
    lse[first + r] =
        sum[r] > 0 ? maximum[r] + std::log(sum[r]) : -std::numeric_limits<W>::infinity();
  }
}

/// One head of one sequence; writes the lse of its queries.
template <class T>
void attend_head(const Sizes& z, const KernelMemory& memory, std::int64_t task, Wide<T>* lse) {
  using W = Wide<T>;
  const ForwardRoom<W> room(
      reinterpret_cast<W*>(memory.workspace) + omp_get_thread_num() * ForwardRoom<W>::size(z), z);
  const std::int64_t b = task / z.heads;
  const std::int64_t h = task % z.heads;
  const std::int64_t group = h / z.heads_per_group();
  const std::int64_t key_stride = z.groups * z.depth;
  const std::int64_t stride = z.heads * z.depth;
  const std::int64_t key_at = b * z.keys * key_stride + group * z.depth;
  // Whole blocks of keys, of which any query sees some.
  const std::int64_t seen = z.queries == 0 ? 0 : z.visible(0, z.queries);
  const std::int64_t keys = std::min(z.keys, (seen + kKeys - 1) / kKeys * kKeys);
  take_head_transposed(input<T>(memory, 1) + key_at, key_stride, Block<W>{room.keys, z.keys}, keys,
                       z.depth);
  take_head(input<T>(memory, 2) + key_at, key_stride, room.values, keys, z.depth);
  for (std::int64_t first = 0; first < z.queries; first += kQueries) {
    const std::int64_t rows = std::min(kQueries, z.queries - first);
    const std::int64_t at = (b * z.queries + first) * stride + h * z.depth;
    take_head(input<T>(memory, 0) + at, stride, room.query, rows, z.depth);
    attend_block(z, room, first, rows, lse);
    put_head(room.result, output<T>(memory, 0) + at, stride, rows, z.depth);
  }
}

/// attention_at: the positions of the queries are its last input, and its lse is not a result.
std::unique_ptr<PreparedKernel> attention_at(const KernelRequest& request) {
  if (request.inputs[3].dtype != DType::I32) {
    return nullptr;
  }
  const Signature s = signature_of(request);
  const Shape& q = s.shape(0);
  const Shape& k = s.shape(1);
  const double scale = s.number("scale");
  const Sizes z{.batch = q.dim(0),
                .queries = q.dim(1),
                .keys = k.dim(1),
                .heads = q.dim(2),
                .groups = k.dim(2),
                .depth = q.dim(3),
                .causal = true,
                .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q.dim(3))),
                .start = 0};
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    const std::int64_t room = ForwardRoom<W>::size(z) * omp_get_max_threads();
    return kernel(
        [z, room](const KernelMemory& memory) {
          const auto* positions = input<std::int32_t>(memory, 3);
          require_ids("attention_at", positions, z.batch * z.queries, 0, z.keys);
          W* const lses = reinterpret_cast<W*>(memory.workspace) + room;
          parallel(z.batch * z.heads, 1, [&](std::int64_t begin, std::int64_t end) {
            W* const lse = lses + omp_get_thread_num() * z.queries;
            for (std::int64_t task = begin; task < end; ++task) {
              Sizes one = z;
              one.positions = positions + task / z.heads * z.queries;
              attend_head<T>(one, memory, task, lse);
            }
          });
        },
        Bytes{(room + omp_get_max_threads() * z.queries) * static_cast<std::int64_t>(sizeof(W))});
  });
}

std::unique_ptr<PreparedKernel> attention(const KernelRequest& request) {
  const Sizes z = sizes_of(request, 0);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [z](const KernelMemory& memory) {
          parallel(z.batch * z.heads, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t task = begin; task < end; ++task) {
              attend_head<T>(z, memory, task, output<Wide<T>>(memory, 1) + task * z.queries);
            }
          });
        },
        Bytes{omp_get_max_threads() * ForwardRoom<Wide<T>>::size(z) *
              static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

/// One thread's scratch for the backward: a group of heads that share their keys.
template <class W>
struct BackwardRoom {
  W* keys;               // [S, D]
  W* keys_transposed;    // [D, S]
  W* values_transposed;  // [D, S]
  W* dkeys;              // [S, D]
  W* dvalues;            // [S, D]
  W* query;              // [T, D], as the next two
  W* dresult;
  W* dquery;
  W* dot;      // [T]: dy . y
  W* scores;   // [kQueries, kKeys]
  W* dscores;  // [kQueries, kKeys]

  static std::int64_t size(const Sizes& z) {
    return 5 * z.keys * z.depth + 3 * z.queries * z.depth + z.queries + 2 * kQueries * kKeys;
  }
  BackwardRoom(W* at, const Sizes& z)
      : keys(at),
        keys_transposed(keys + z.keys * z.depth),
        values_transposed(keys_transposed + z.keys * z.depth),
        dkeys(values_transposed + z.keys * z.depth),
        dvalues(dkeys + z.keys * z.depth),
        query(dvalues + z.keys * z.depth),
        dresult(query + z.queries * z.depth),
        dquery(dresult + z.queries * z.depth),
        dot(dquery + z.queries * z.depth),
        scores(dot + z.queries),
        dscores(scores + kQueries * kKeys) {}
};

/// The pair of a block of queries and a block of keys.
template <class W>
void attend_backward_block(const Sizes& z, const BackwardRoom<W>& room, const W* lse,
                           std::int64_t first, std::int64_t key) {
  const std::int64_t rows = std::min(kQueries, z.queries - first);
  const std::int64_t keys = std::min(kKeys, z.keys - key);
  const W* query = room.query + first * z.depth;
  const W* dresult = room.dresult + first * z.depth;
  scores(z, query, room.keys_transposed, room.scores, {first, rows, key, keys});
  std::fill(room.dscores, room.dscores + rows * kKeys, W{0});
  multiply_add<false>(Block<const W>{dresult, z.depth},
                      Block<const W>{room.values_transposed + key, z.keys},
                      Block<W>{room.dscores, kKeys}, rows, keys, z.depth);
  for (std::int64_t r = 0; r < rows; ++r) {
    W* s = room.scores + r * kKeys;
    W* ds = room.dscores + r * kKeys;
    const std::int64_t seen = std::clamp(z.visible(first + r) - key, std::int64_t{0}, keys);
    const W log_sum = lse[first + r];
    const W dot = room.dot[first + r];
#pragma omp simd
    for (std::int64_t k = 0; k < seen; ++k) {
      s[k] = exp_of(s[k] - log_sum);
      ds[k] = s[k] * (ds[k] - dot) * static_cast<W>(z.scale);
    }
    std::fill(s + seen, s + keys, W{0});
    std::fill(ds + seen, ds + keys, W{0});
  }
  multiply_add<true>(Block<const W>{room.scores, kKeys}, Block<const W>{dresult, z.depth},
                     Block<W>{room.dvalues + key * z.depth, z.depth}, keys, z.depth, rows);
  multiply_add<false>(Block<const W>{room.dscores, kKeys},
                      Block<const W>{room.keys + key * z.depth, z.depth},
                      Block<W>{room.dquery + first * z.depth, z.depth}, rows, z.depth, keys);
  multiply_add<true>(Block<const W>{room.dscores, kKeys}, Block<const W>{query, z.depth},
                     Block<W>{room.dkeys + key * z.depth, z.depth}, keys, z.depth, rows);
}

/// Inputs dy, q, k, v, y, lse.
template <class T>
void attend_backward_head(const Sizes& z, const KernelMemory& memory,
                          const BackwardRoom<Wide<T>>& room, std::int64_t b, std::int64_t h) {
  using W = Wide<T>;
  const std::int64_t stride = z.heads * z.depth;
  const std::int64_t at = b * z.queries * stride + h * z.depth;
  take_head(input<T>(memory, 1) + at, stride, room.query, z.queries, z.depth);
  take_head(input<T>(memory, 4) + at, stride, room.dresult, z.queries, z.depth);
  take_head(input<T>(memory, 0) + at, stride, room.dquery, z.queries, z.depth);
  for (std::int64_t t = 0; t < z.queries; ++t) {
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t d = 0; d < z.depth; ++d) {
      sum += room.dresult[t * z.depth + d] * room.dquery[t * z.depth + d];
    }
    room.dot[t] = sum;
  }
  std::copy(room.dquery, room.dquery + z.queries * z.depth, room.dresult);
  std::fill(room.dquery, room.dquery + z.queries * z.depth, W{0});
  const W* lse = input<W>(memory, 5) + (b * z.heads + h) * z.queries;
  for (std::int64_t key = 0; key < z.keys; key += kKeys) {
    for (std::int64_t first = 0; first < z.queries; first += kQueries) {
      if (z.visible(std::min(first + kQueries, z.queries) - 1) > key) {
        attend_backward_block(z, room, lse, first, key);
      }
    }
  }
  put_head(room.dquery, output<T>(memory, 0) + at, stride, z.queries, z.depth);
}

template <class T>
void attend_backward_group(const Sizes& z, const KernelMemory& memory, std::int64_t task) {
  using W = Wide<T>;
  const BackwardRoom<W> room(
      reinterpret_cast<W*>(memory.workspace) + omp_get_thread_num() * BackwardRoom<W>::size(z), z);
  const std::int64_t b = task / z.groups;
  const std::int64_t g = task % z.groups;
  const std::int64_t stride = z.groups * z.depth;
  const std::int64_t at = b * z.keys * stride + g * z.depth;
  take_head(input<T>(memory, 2) + at, stride, room.keys, z.keys, z.depth);
  take_head_transposed(input<T>(memory, 2) + at, stride, Block<W>{room.keys_transposed, z.keys},
                       z.keys, z.depth);
  take_head_transposed(input<T>(memory, 3) + at, stride, Block<W>{room.values_transposed, z.keys},
                       z.keys, z.depth);
  std::fill(room.dkeys, room.dkeys + z.keys * z.depth, W{0});
  std::fill(room.dvalues, room.dvalues + z.keys * z.depth, W{0});
  for (std::int64_t h = g * z.heads_per_group(); h < (g + 1) * z.heads_per_group(); ++h) {
    attend_backward_head<T>(z, memory, room, b, h);
  }
  put_head(room.dkeys, output<T>(memory, 1) + at, stride, z.keys, z.depth);
  put_head(room.dvalues, output<T>(memory, 2) + at, stride, z.keys, z.depth);
}

std::unique_ptr<PreparedKernel> attention_backward(const KernelRequest& request) {
  const Sizes z = sizes_of(request, 1);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel(
        [z](const KernelMemory& memory) {
          parallel(z.batch * z.groups, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t task = begin; task < end; ++task) {
              attend_backward_group<T>(z, memory, task);
            }
          });
        },
        Bytes{omp_get_max_threads() * BackwardRoom<Wide<T>>::size(z) *
              static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

/// The shares of two sets of keys in a query's result, and their lse.
template <class W>
struct Shares {
  W a = 0;
  W b = 0;
  W lse;

  Shares(W lse_a, W lse_b) : lse(std::max(lse_a, lse_b)) {
    if (lse == -std::numeric_limits<W>::infinity()) {
      return;
    }
    const W e_a = std::exp(lse_a - lse);
    const W e_b = std::exp(lse_b - lse);
    a = e_a / (e_a + e_b);
    b = e_b / (e_a + e_b);
    lse += std::log(e_a + e_b);
  }
};

/// Inputs y_a, lse_a, y_b, lse_b. Each lse is read before it may be overwritten.
std::unique_ptr<PreparedKernel> attention_merge(const KernelRequest& request) {
  const Shape& y = request.inputs[0].shape;
  const std::int64_t queries = y.dim(1);
  const std::int64_t heads = y.dim(2);
  const std::int64_t depth = y.dim(3);
  const std::int64_t rows = y.dim(0) * queries * heads;
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel([=](const KernelMemory& memory) {
      parallel(rows, 1 + kSerial / std::max<std::int64_t>(depth, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t b = i / heads / queries;
                   const std::int64_t at = (b * heads + i % heads) * queries + i / heads % queries;
                   const Shares<W> shares(input<W>(memory, 1)[at], input<W>(memory, 3)[at]);
                   const T* y_a = input<T>(memory, 0) + i * depth;
                   const T* y_b = input<T>(memory, 2) + i * depth;
                   T* result = output<T>(memory, 0) + i * depth;
#pragma omp simd
                   for (std::int64_t d = 0; d < depth; ++d) {
                     store(result[d], load(y_a[d]) * shares.a + load(y_b[d]) * shares.b);
                   }
                   output<W>(memory, 1)[at] = shares.lse;
                 }
               });
    });
  });
}

}  // namespace

std::vector<KernelRow> attention_kernels() {
  return {{"attention", attention},
          {"attention_at", attention_at},
          {"attention_backward", attention_backward},
          {"attention_merge", attention_merge}};
}

}  // namespace trireme::cpu::TRIREME_ISA
