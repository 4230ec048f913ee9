// Soft-max and cross-entropy, by rows. A row of 50,000 logits stays in the second cache between its passes.
#include <limits>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/rows.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
Wide<T> largest_of(const T* x, std::int64_t n) {
  Wide<T> largest = -std::numeric_limits<Wide<T>>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) {
    const Wide<T> value = load(x[i]);
    largest = value > largest ? value : largest;
  }
  return largest;
}

template <class T>
Wide<T> sum_of_exp(const T* x, std::int64_t n, Wide<T> largest) {
  Wide<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    sum += exp_of(load(x[i]) - largest);
  }
  return sum;
}

std::unique_ptr<PreparedKernel> softmax(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([rows](const KernelMemory& memory) {
      parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const T* x = input<T>(memory, 0) + r * rows.length;
          T* y = output<T>(memory, 0) + r * rows.length;
          const Wide<T> largest = largest_of(x, rows.length);
          const Wide<T> share = 1 / sum_of_exp(x, rows.length, largest);
#pragma omp simd
          for (std::int64_t i = 0; i < rows.length; ++i) {
            store(y[i], exp_of(load(x[i]) - largest) * share);
          }
        }
      });
    });
  });
}

// dx = y (dy - sum of dy y)
std::unique_ptr<PreparedKernel> softmax_backward(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([rows](const KernelMemory& memory) {
      parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const T* dy = input<T>(memory, 0) + r * rows.length;
          const T* y = input<T>(memory, 1) + r * rows.length;
          T* dx = output<T>(memory, 0) + r * rows.length;
          Wide<T> dot = 0;
#pragma omp simd reduction(+ : dot)
          for (std::int64_t i = 0; i < rows.length; ++i) {
            dot += load(dy[i]) * load(y[i]);
          }
#pragma omp simd
          for (std::int64_t i = 0; i < rows.length; ++i) {
            store(dx[i], load(y[i]) * (load(dy[i]) - dot));
          }
        }
      });
    });
  });
}

/// A row's target, or -1 for one that is ignored.
template <class F>
std::unique_ptr<PreparedKernel> with_targets(DType targets, F f) {
  switch (targets) {
    case DType::I32:
      return f(std::int32_t{});
    case DType::I64:
      return f(std::int64_t{});
    default:
      return nullptr;
  }
}

std::unique_ptr<PreparedKernel> cross_entropy(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  return with_targets(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      using W = Wide<T>;
      return kernel([rows](const KernelMemory& memory) {
        require_ids("cross_entropy", input<I>(memory, 1), rows.count, -1, rows.length);
        parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            const T* logits = input<T>(memory, 0) + r * rows.length;
            const I target = input<I>(memory, 1)[r];
            const W largest = largest_of(logits, rows.length);
            const W lse = largest + std::log(sum_of_exp(logits, rows.length, largest));
            output<W>(memory, 0)[r] = target < 0 ? W{0} : lse - load(logits[target]);
            output<W>(memory, 1)[r] = lse;
          }
        });
      });
    });
  });
}

// dlogits = (softmax(logits) - [i = target]) dloss; inputs dloss, logits, targets, lse.
std::unique_ptr<PreparedKernel> cross_entropy_backward(const KernelRequest& request) {
  const Rows rows(request.inputs[1].shape);
  return with_targets(request.inputs[2].dtype, [&]<class I>(I) {
    return for_float(request.inputs[1].dtype, [&]<class T>(T) {
      using W = Wide<T>;
      return kernel([rows](const KernelMemory& memory) {
        require_ids("cross_entropy_backward", input<I>(memory, 2), rows.count, -1, rows.length);
        parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            const T* logits = input<T>(memory, 1) + r * rows.length;
            T* dlogits = output<T>(memory, 0) + r * rows.length;
            const I target = input<I>(memory, 2)[r];
            const W lse = input<W>(memory, 3)[r];
            const W weight = target < 0 ? W{0} : input<W>(memory, 0)[r];
#pragma omp simd
            for (std::int64_t i = 0; i < rows.length; ++i) {
              store(dlogits[i], exp_of(load(logits[i]) - lse) * weight);
            }
            if (target >= 0) {
              store(dlogits[target], load(dlogits[target]) - weight);
            }
          }
        });
      });
    });
  });
}

}  // namespace

std::vector<KernelRow> loss_kernels() {
  return {{"cross_entropy", cross_entropy},
          {"cross_entropy_backward", cross_entropy_backward},
          {"softmax", softmax},
          {"softmax_backward", softmax_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
