// Norms and their backwards: one pass over memory each; a row stays in the L1 cache.
#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/rows.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
struct LayerNorm {
  using W = Wide<T>;
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  W* mean;
  W* rstd;
  std::int64_t c;
  W epsilon;

  void row(std::int64_t r) const {
    const T* from = x + r * c;
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < c; ++i) {
      sum += load(from[i]);
    }
    const W m = sum / static_cast<W>(c);
    W squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < c; ++i) {
      const W d = load(from[i]) - m;
      squares += d * d;
    }
    const W s = 1 / std::sqrt(squares / static_cast<W>(c) + epsilon);
#pragma omp simd
    for (std::int64_t i = 0; i < c; ++i) {
      store(y[r * c + i], (load(from[i]) - m) * s * load(gamma[i]) + load(beta[i]));
    }
    mean[r] = m;
    rstd[r] = s;
  }
};

std::unique_ptr<PreparedKernel> layer_norm(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  if (request.inputs[1].dtype != request.inputs[0].dtype) {
    return nullptr;
  }
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel([rows, epsilon](const KernelMemory& memory) {
      const LayerNorm<T> norm{input<T>(memory, 0),  input<T>(memory, 1),    input<T>(memory, 2),
                              output<T>(memory, 0), output<W>(memory, 1),   output<W>(memory, 2),
                              rows.length,          static_cast<W>(epsilon)};
      parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          norm.row(r);
        }
      });
    });
  });
}

/// Sums over rows are split into this many parts, for any number of threads, so that results are bitwise reproducible.
constexpr std::int64_t kParts = 16;

template <class T>
struct LayerNormBackward {
  using W = Wide<T>;
  const T* dy;
  const T* x;
  const T* gamma;
  const W* mean;
  const W* rstd;
  T* dx;
  std::int64_t c;

  void row(std::int64_t r, W* dgamma, W* dbeta) const {
    const T* dy_row = dy + r * c;
    const T* x_row = x + r * c;
    const W m = mean[r];
    const W s = rstd[r];
    W sum_g = 0;
    W sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
    for (std::int64_t i = 0; i < c; ++i) {
      const W n = (load(x_row[i]) - m) * s;
      const W d = load(dy_row[i]);
      const W g = d * load(gamma[i]);
      sum_g += g;
      sum_gn += g * n;
      dgamma[i] += d * n;
      dbeta[i] += d;
    }
    const W mean_g = sum_g / static_cast<W>(c);
    const W mean_gn = sum_gn / static_cast<W>(c);
#pragma omp simd
    for (std::int64_t i = 0; i < c; ++i) {
      const W n = (load(x_row[i]) - m) * s;
      store(dx[r * c + i], s * (load(dy_row[i]) * load(gamma[i]) - mean_g - n * mean_gn));
    }
  }
};

template <class T>
void run_layer_norm_backward(const Rows& rows, const KernelMemory& memory) {
  using W = Wide<T>;
  const LayerNormBackward<T> backward{
      input<T>(memory, 0), input<T>(memory, 1),  input<T>(memory, 2), input<W>(memory, 3),
      input<W>(memory, 4), output<T>(memory, 0), rows.length};
  const std::int64_t c = rows.length;
  W* sums = reinterpret_cast<W*>(memory.workspace);  // [part][dgamma, dbeta][c]
  parallel(kParts, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      W* mine = sums + part * 2 * c;
      std::fill(mine, mine + 2 * c, W{0});
      for (std::int64_t r = rows.count * part / kParts; r < rows.count * (part + 1) / kParts; ++r) {
        backward.row(r, mine, mine + c);
      }
    }
  });
  for (std::int64_t i = 0; i < c; ++i) {
    W dgamma = 0;
    W dbeta = 0;
    for (std::int64_t part = 0; part < kParts; ++part) {
      dgamma += sums[part * 2 * c + i];
      dbeta += sums[part * 2 * c + c + i];
    }
    store(output<T>(memory, 1)[i], dgamma);
    store(output<T>(memory, 2)[i], dbeta);
  }
}

std::unique_ptr<PreparedKernel> layer_norm_backward(const KernelRequest& request) {
  const Rows rows(request.inputs[1].shape);
  if (request.inputs[2].dtype != request.inputs[1].dtype) {
    return nullptr;
  }
  return for_float(request.inputs[1].dtype, [&]<class T>(T) {
    return kernel([rows](const KernelMemory& memory) { run_layer_norm_backward<T>(rows, memory); },
                  Bytes{kParts * 2 * rows.length * static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

std::unique_ptr<PreparedKernel> rms_norm(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  const double epsilon = signature_of(request).number("epsilon");
  if (request.inputs[1].dtype != request.inputs[0].dtype) {
    return nullptr;
  }
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    using W = Wide<T>;
    return kernel([rows, epsilon](const KernelMemory& memory) {
      const T* gamma = input<T>(memory, 1);
      parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const T* x = input<T>(memory, 0) + r * rows.length;
          T* y = output<T>(memory, 0) + r * rows.length;
          W squares = 0;
#pragma omp simd reduction(+ : squares)
          for (std::int64_t i = 0; i < rows.length; ++i) {
            squares += load(x[i]) * load(x[i]);
          }
          const W rstd =
              1 / std::sqrt(squares / static_cast<W>(rows.length) + static_cast<W>(epsilon));
#pragma omp simd
          for (std::int64_t i = 0; i < rows.length; ++i) {
            store(y[i], load(x[i]) * rstd * load(gamma[i]));
          }
          output<W>(memory, 1)[r] = rstd;
        }
      });
    });
  });
}

// dx = rstd (g - n mean(g n)) with g = dy gamma, n = x rstd; inputs dy, x, gamma, rstd.
template <class T>
void rms_backward_row(const KernelMemory& memory, std::int64_t r, std::int64_t c, Wide<T>* dgamma) {
  using W = Wide<T>;
  const T* dy = input<T>(memory, 0) + r * c;
  const T* x = input<T>(memory, 1) + r * c;
  const T* gamma = input<T>(memory, 2);
  const W rstd = input<W>(memory, 3)[r];
  T* dx = output<T>(memory, 0) + r * c;
  W sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < c; ++i) {
    const W n = load(x[i]) * rstd;
    sum += load(dy[i]) * load(gamma[i]) * n;
    dgamma[i] += load(dy[i]) * n;
  }
  const W mean = sum / static_cast<W>(c);
#pragma omp simd
  for (std::int64_t i = 0; i < c; ++i) {
    const W n = load(x[i]) * rstd;
    store(dx[i], rstd * (load(dy[i]) * load(gamma[i]) - n * mean));
  }
}

template <class T>
void run_rms_norm_backward(const Rows& rows, const KernelMemory& memory) {
  using W = Wide<T>;
  const std::int64_t c = rows.length;
  W* sums = reinterpret_cast<W*>(memory.workspace);
  parallel(kParts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::fill(sums + part * c, sums + (part + 1) * c, W{0});
      for (std::int64_t r = rows.count * part / kParts; r < rows.count * (part + 1) / kParts; ++r) {
        rms_backward_row<T>(memory, r, c, sums + part * c);
      }
    }
  });
  for (std::int64_t i = 0; i < c; ++i) {
    W dgamma = 0;
    for (std::int64_t part = 0; part < kParts; ++part) {
      dgamma += sums[part * c + i];
    }
    store(output<T>(memory, 1)[i], dgamma);
  }
}

std::unique_ptr<PreparedKernel> rms_norm_backward(const KernelRequest& request) {
  const Rows rows(request.inputs[1].shape);
  if (request.inputs[2].dtype != request.inputs[1].dtype) {
    return nullptr;
  }
  return for_float(request.inputs[1].dtype, [&]<class T>(T) {
    return kernel([rows](const KernelMemory& memory) { run_rms_norm_backward<T>(rows, memory); },
                  Bytes{kParts * rows.length * static_cast<std::int64_t>(sizeof(Wide<T>))});
  });
}

}  // namespace

std::vector<KernelRow> norm_kernels() {
  return {{"layer_norm", layer_norm},
          {"layer_norm_backward", layer_norm_backward},
          {"rms_norm", rms_norm},
          {"rms_norm_backward", rms_norm_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
