// Small matrix products on cached blocks, for kernels that cannot use the library.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// A row-major matrix: element (r, c) at data[r * stride + c], or of its transpose.
template <class W>
struct Block {
  W* data;
  std::int64_t stride;
};

/// A register of W, at any address.
template <class W>
struct Register {
  static constexpr std::int64_t kBytes = __BIGGEST_ALIGNMENT__;
  static constexpr std::int64_t kLanes = kBytes / static_cast<std::int64_t>(sizeof(W));
  // A using-declaration cannot carry vector attributes.
  typedef W Type  // NOLINT(modernize-use-using)
      __attribute__((vector_size(kBytes), aligned(alignof(W)), may_alias));
};

template <class W>
using RegisterOf = typename Register<W>::Type;

/// This many rows of the result stay in registers, two registers wide: half of the 16 or 32 available.
inline constexpr int kTileRows = __BIGGEST_ALIGNMENT__ == 64 ? 8 : 4;
template <class W>
inline constexpr std::int64_t kTileColumns = 2 * Register<W>::kLanes;

/// c[rows, 2 registers] += a[rows, k] b[k, 2 registers]
template <bool kTransposedA, int kRows, class W>
void multiply_tile(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t depth) {
  using V = RegisterOf<W>;
  constexpr std::int64_t kLanes = Register<W>::kLanes;
  V left[kRows];
  V right[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    left[r] = *reinterpret_cast<const V*>(c.data + r * c.stride);
    right[r] = *reinterpret_cast<const V*>(c.data + r * c.stride + kLanes);
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    const V b_left = *reinterpret_cast<const V*>(b.data + k * b.stride);
    const V b_right = *reinterpret_cast<const V*>(b.data + k * b.stride + kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const W factor = kTransposedA ? a.data[k * a.stride + r] : a.data[r * a.stride + k];
      left[r] += factor * b_left;
      right[r] += factor * b_right;
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    *reinterpret_cast<V*>(c.data + r * c.stride) = left[r];
    *reinterpret_cast<V*>(c.data + r * c.stride + kLanes) = right[r];
  }
}

/// The remainder at the edges.
template <bool kTransposedA, class W>
void multiply_edge(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t rows,
                   std::int64_t columns, std::int64_t depth) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const W factor = kTransposedA ? a.data[k * a.stride + r] : a.data[r * a.stride + k];
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) {
        c.data[r * c.stride + j] += factor * b.data[k * b.stride + j];
      }
    }
  }
}

/// c[rows, columns] += a[rows, depth] b[depth, columns]; a may be given as its transpose.
template <bool kTransposedA, class W>
void multiply_add(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t rows,
                  std::int64_t columns, std::int64_t depth) {
  constexpr std::int64_t kColumns = kTileColumns<W>;
  const auto a_from = [&](std::int64_t r) {
    return Block<const W>{kTransposedA ? a.data + r : a.data + r * a.stride, a.stride};
  };
  for (std::int64_t j = 0; j < columns; j += kColumns) {
    const Block<const W> b_part{b.data + j, b.stride};
    for (std::int64_t r = 0; r < rows; r += kTileRows) {
      const Block<W> c_part{c.data + r * c.stride + j, c.stride};
      if (r + kTileRows <= rows && j + kColumns <= columns) {
        multiply_tile<kTransposedA, kTileRows>(a_from(r), b_part, c_part, depth);
      } else {
        multiply_edge<kTransposedA>(a_from(r), b_part, c_part,
                                    std::min<std::int64_t>(kTileRows, rows - r),
                                    std::min(kColumns, columns - j), depth);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
