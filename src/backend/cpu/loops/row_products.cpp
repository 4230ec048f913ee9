// einsum for generating text: a matrix product in which the bits of a row depend on that row alone. Every element is
// summed in one order, however many rows there are, so that a token has the same logits whether it is computed alone or
// among others. With one row, the product reads each weight once, in the order of memory.
//
//   b[k][j] with j adjacent (GPT-2)   k in 8 parts; in each y[j] += a[k] b[k][j] from the first k on, then the parts' sums
//   b[j][k] with k adjacent (Llama)   2 registers of partial sums: lane l has the k with k mod lanes = l; then the lanes by
//                                     halves, then the remaining k
//
// Memory is fastest when each thread reads one stream, from front to back: with one row, threads share the parts of k, or
// the columns. Neither changes the order of a sum.
#include "backend/cpu/loops/block_gemm.h"
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "graph/product_view.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t kParts = 8;
/// Rows that share their reads of b.
constexpr std::int64_t kRows = 4;

std::int64_t part_begin(std::int64_t part, std::int64_t summed) {
  return part * summed / kParts;
}

/// Rows of a that are adjacent in the result, and their sums, [rows, columns].
template <class T>
struct Rows {
  const T* a;
  std::int64_t count;
  Wide<T>* sums;
};

/// sums[r][j] = the sum of a[r][k] b[k][j] over one part of k.
template <class T>
void sum_part(const ProductView& v, const Rows<T>& rows, const T* b, std::int64_t part) {
  std::fill(rows.sums, rows.sums + rows.count * v.columns, Wide<T>{0});
  for (std::int64_t k = part_begin(part, v.summed); k < part_begin(part + 1, v.summed); ++k) {
    const T* const from = b + k * v.b.row;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const Wide<T> factor = load(rows.a[r * v.a.row + k * v.a.column]);
      Wide<T>* const sums = rows.sums + r * v.columns;
#pragma omp simd
      for (std::int64_t j = 0; j < v.columns; ++j) {
        sums[j] += factor * load(from[j]);
      }
    }
  }
}

/// One row: the threads share the parts. `parts` is [kParts, columns].
template <class T>
void multiply_one(const ProductView& v, const T* a, const T* b, T* y, Wide<T>* parts) {
  const std::int64_t cost = std::max<std::int64_t>(v.summed * v.columns / kParts, 1);
  parallel(kParts, 1 + kSerial / cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      sum_part(v, Rows<T>{a, 1, parts + part * v.columns}, b, part);
    }
  });
  for (std::int64_t part = 1; part < kParts; ++part) {
#pragma omp simd
    for (std::int64_t j = 0; j < v.columns; ++j) {
      parts[j] += parts[part * v.columns + j];
    }
  }
  for (std::int64_t j = 0; j < v.columns; ++j) {
    store(y[j * v.y.column], parts[j]);
  }
}

/// Some rows on one thread, in the same order. Their sums have room for two blocks of kRows rows.
template <class T>
void multiply_some(const ProductView& v, Rows<T> rows, const T* b, T* y) {
  Wide<T>* const totals = rows.sums;
  sum_part(v, rows, b, 0);
  rows.sums += kRows * v.columns;
  for (std::int64_t part = 1; part < kParts; ++part) {
    sum_part(v, rows, b, part);
#pragma omp simd
    for (std::int64_t i = 0; i < rows.count * v.columns; ++i) {
      totals[i] += rows.sums[i];
    }
  }
  for (std::int64_t i = 0; i < rows.count * v.columns; ++i) {
    store(y[i / v.columns * v.y.row + i % v.columns * v.y.column], totals[i]);
  }
}

/// Scratch elements: for one row its parts, else for each thread two blocks of rows.
std::int64_t room_for(const ProductView& v) {
  return v.columns * std::max(kParts, 2 * kRows * std::int64_t{omp_get_max_threads()});
}

/// b has its columns adjacent.
template <class T>
void multiply_by_parts(const ProductView& v, const KernelMemory& memory) {
  auto* const room = reinterpret_cast<Wide<T>*>(memory.workspace);
  const T* const a = input<T>(memory, 0);
  const T* const b = input<T>(memory, 1);
  T* const y = output<T>(memory, 0);
  if (v.batch * v.rows == 1) {
    multiply_one(v, a, b, y, room);
    return;
  }
  const std::int64_t blocks = (v.rows + kRows - 1) / kRows;
  parallel(v.batch * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    Wide<T>* const own = room + std::int64_t{omp_get_thread_num()} * 2 * kRows * v.columns;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / blocks;
      const std::int64_t row = i % blocks * kRows;
      multiply_some(
          v, Rows<T>{a + batch * v.a.batch + row * v.a.row, std::min(kRows, v.rows - row), own},
          b + batch * v.b.batch, y + batch * v.y.batch + row * v.y.row);
    }
  });
}

template <class T>
RegisterOf<Wide<T>> load_register(const T* from) {
  using W = Wide<T>;
  if constexpr (std::is_same_v<T, W>) {
    return *reinterpret_cast<const RegisterOf<W>*>(from);
  } else {
    W wide[Register<W>::kLanes];
#pragma omp simd
    for (std::int64_t l = 0; l < Register<W>::kLanes; ++l) {
      wide[l] = load(from[l]);
    }
    return *reinterpret_cast<const RegisterOf<W>*>(wide);
  }
}

/// The sum of the lanes of two registers, by halves.
template <class W>
W sum_of(RegisterOf<W> left, RegisterOf<W> right) {
  const RegisterOf<W> both = left + right;
  W lanes[Register<W>::kLanes];
  *reinterpret_cast<RegisterOf<W>*>(lanes) = both;
  for (std::int64_t half = Register<W>::kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) {
      lanes[l] += lanes[l + half];
    }
  }
  return lanes[0];
}

/// The dot product of a row of a and a column of b, whose elements are adjacent.
template <class T>
Wide<T> dot(const T* a, const T* b, std::int64_t count) {
  using W = Wide<T>;
  constexpr std::int64_t kLanes = Register<W>::kLanes;
  RegisterOf<W> left = {};
  RegisterOf<W> right = {};
  std::int64_t k = 0;
  for (; k + 2 * kLanes <= count; k += 2 * kLanes) {
    left += load_register(a + k) * load_register(b + k);
    right += load_register(a + k + kLanes) * load_register(b + k + kLanes);
  }
  W sum = sum_of<W>(left, right);
  for (; k < count; ++k) {
    sum += load(a[k]) * load(b[k]);
  }
  return sum;
}

/// Some columns at a time for all rows, which then find them in the cache.
template <class T>
void multiply_by_dots(const ProductView& v, const KernelMemory& memory) {
  const std::int64_t cost = std::max<std::int64_t>(v.batch * v.rows * v.summed, 1);
  const auto range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < v.batch * (end - begin) * v.rows; ++i) {
      const std::int64_t row = i % v.rows;
      const std::int64_t column = begin + i / v.rows % (end - begin);
      const std::int64_t batch = i / v.rows / (end - begin);
      store(output<T>(memory, 0)[batch * v.y.batch + row * v.y.row + column * v.y.column],
            dot(input<T>(memory, 0) + batch * v.a.batch + row * v.a.row,
                input<T>(memory, 1) + batch * v.b.batch + column * v.b.column, v.summed));
    }
  };
  parallel(v.columns, 1 + kSerial / cost, range);
}

std::unique_ptr<PreparedKernel> einsum_by_rows(const KernelRequest& request) {
  const std::optional<ProductView> view = product_view(signature_of(request));
  if (!view) {
    return nullptr;
  }
  const bool by_parts = view->b.column == 1 && view->columns > 1;
  if (!by_parts && !(view->b.row == 1 && view->a.column == 1)) {
    return nullptr;
  }
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return by_parts ? kernel([v = *view](const KernelMemory& m) { multiply_by_parts<T>(v, m); },
                             Bytes{room_for(*view) * static_cast<std::int64_t>(sizeof(Wide<T>))})
                    : kernel([v = *view](const KernelMemory& m) { multiply_by_dots<T>(v, m); });
  });
}

}  // namespace

std::vector<KernelRow> row_product_kernels() {
  return {{kEinsumByRows, einsum_by_rows}};
}

}  // namespace trireme::cpu::TRIREME_ISA
