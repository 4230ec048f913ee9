// muon, as defined in graph/ops/muon.cpp. Each matrix is orthogonalized as Y[l,s] with l >= s, transposed if need be, so
// that both products of an iteration read rows of contiguous memory:
//
//   G[s,s] = Y^T Y,  F = kB G + kC G G,  Y' = kA Y + Y F
#include "graph/muon.h"

#include <array>

#include "backend/cpu/loops/block_gemm.h"
#include "backend/cpu/loops/optimizer_step.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

/// The workspace for orthogonalizing one matrix.
template <class W>
struct Scratch {
  std::int64_t large;  ///< rows of y
  std::int64_t small;
  W* y;
  W* next;
  W* gram;
  W* factor;

  Scratch(const muon::Matrices& m, std::byte* workspace)
      : large(std::max(m.rows, m.columns)),
        small(std::min(m.rows, m.columns)),
        y(reinterpret_cast<W*>(workspace)),
        next(y + large * small),
        gram(next + large * small),
        factor(gram + small * small) {}
  static std::int64_t elements(const muon::Matrices& m) {
    const std::int64_t least = std::min(m.rows, m.columns);
    return 2 * m.rows * m.columns + 2 * least * least;
  }
};

/// c[rows,columns] += a b on all threads; a[rows,depth] may be given as its transpose.
template <bool kTransposedA, class W>
void multiply(Block<const W> a, Block<const W> b, Block<W> c, std::int64_t rows,
              std::int64_t columns, std::int64_t depth) {
  parallel(rows, kTileRows, [=](std::int64_t begin, std::int64_t end) {
    const Block<const W> part{kTransposedA ? a.data + begin : a.data + begin * a.stride, a.stride};
    multiply_add<kTransposedA>(part, b, Block<W>{c.data + begin * c.stride, c.stride}, end - begin,
                               columns, depth);
  });
}

/// to = alpha a + beta b; `to` may be either.
template <class W>
void combine(W* to, double alpha, const W* a, double beta, const W* b, std::int64_t n) {
  parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<W>(alpha) * a[i] + static_cast<W>(beta) * b[i];
    }
  });
}

template <class W>
void iterate(Scratch<W>& x) {
  const std::int64_t s = x.small;
  const std::int64_t squares = s * s;
  const Block<const W> y{x.y, s};
  const Block<const W> gram{x.gram, s};
  std::fill(x.gram, x.gram + squares, W{0});
  multiply<true>(y, y, Block<W>{x.gram, s}, s, s, x.large);
  std::fill(x.factor, x.factor + squares, W{0});
  multiply<false>(gram, gram, Block<W>{x.factor, s}, s, s, s);
  combine(x.factor, muon::kB, x.gram, muon::kC, x.factor, squares);
  combine(x.next, muon::kA, x.y, 0, x.y, x.large * s);
  multiply<false>(y, Block<const W>{x.factor, s}, Block<W>{x.next, s}, x.large, s, s);
  std::swap(x.y, x.next);
}

template <class W>
void orthogonalize(Scratch<W>& x) {
  const std::int64_t n = x.large * x.small;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    squares += static_cast<double>(x.y[i]) * static_cast<double>(x.y[i]);
  }
  combine(x.y, 1 / (std::sqrt(squares) + muon::kTiny), x.y, 0, x.y, n);
  for (int i = 0; i < muon::kIterations; ++i) {
    iterate(x);
  }
}

/// The scalars of a step and where a matrix begins.
struct Step {
  double rate = 0;
  double g_scale = 0;
  double momentum = 0;
  double decay = 0;
  std::int64_t first = 0;
};

/// Element (row, column) of y for an element of the matrix.
inline std::int64_t place(const muon::Matrices& m, std::int64_t row, std::int64_t column) {
  return m.rows >= m.columns ? row * m.columns + column : column * m.rows + row;
}

/// Computes the new momentum; y becomes the matrix to orthogonalize.
template <class P, class G, class W>
void add_gradient(const muon::Matrices& m, const Step& step, const KernelMemory& memory, W* y) {
  const G* g = input<G>(memory, 1) + step.first;
  const W* old = input<W>(memory, 2) + step.first;
  W* now = output<W>(memory, 1) + step.first;
  const W momentum = static_cast<W>(step.momentum);
  const W g_scale = static_cast<W>(step.g_scale);
  parallel(m.rows, 1 + kSerial / std::max<std::int64_t>(m.columns, 1),
           [=, &m](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               for (std::int64_t c = 0; c < m.columns; ++c) {
                 const std::int64_t i = r * m.columns + c;
                 const W d = g_scale * static_cast<W>(load(g[i]));
                 const W sum = momentum * old[i] + d;
                 now[i] = sum;
                 y[place(m, r, c)] = d + momentum * sum;
               }
             }
           });
}

template <class P, class W>
void move(const muon::Matrices& m, const Step& step, const KernelMemory& memory, const W* y) {
  const P* old = input<P>(memory, 0) + step.first;
  P* now = output<P>(memory, 0) + step.first;
  const W keep = static_cast<W>(1 - step.rate * step.decay);
  const W rate = static_cast<W>(step.rate * muon::scale_of(m));
  parallel(m.rows, 1 + kSerial / std::max<std::int64_t>(m.columns, 1),
           [=, &m](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               for (std::int64_t c = 0; c < m.columns; ++c) {
                 const std::int64_t i = r * m.columns + c;
                 store(now[i], keep * load(old[i]) - rate * y[place(m, r, c)]);
               }
             }
           });
}

template <class P, class G>
std::unique_ptr<PreparedKernel> muon_of(const KernelRequest& request) {
  using W = Wide<P>;
  const Signature s = signature_of(request);
  const muon::Matrices m = muon::matrices_of(s);
  const Step constants{.momentum = s.number("momentum"), .decay = s.number("decay")};
  const std::int64_t n = request.inputs[0].shape.element_count();
  const std::array<DType, 2> types{request.inputs[3].dtype, request.inputs[4].dtype};
  const auto run = [=](const KernelMemory& memory) {
    Step step = constants;
    step.rate = scalar(memory, 3, types[0]);
    step.g_scale = scalar(memory, 4, types[1]);
    if (n == 0 || keeps_old<P>(memory, step.g_scale, n, 1)) {
      return;
    }
    for (; step.first < n; step.first += m.rows * m.columns) {
      Scratch<W> x(m, memory.workspace);
      add_gradient<P, G, W>(m, step, memory, x.y);
      orthogonalize(x);
      move<P, W>(m, step, memory, x.y);
    }
  };
  return kernel(run, Bytes{Scratch<W>::elements(m) * static_cast<std::int64_t>(sizeof(W))});
}

}  // namespace

std::unique_ptr<PreparedKernel> muon_step(const KernelRequest& request) {
  return for_parameter(request, [&]<class P, class G>(P, G) { return muon_of<P, G>(request); });
}

}  // namespace trireme::cpu::TRIREME_ISA
