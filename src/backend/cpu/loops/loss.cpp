// Softmax and cross-entropy, by rows. A row of 50,000 logits stays in the L2 cache between its passes.
#include <limits>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/row_part.h"
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

/// A row's target, or -1 if it is ignored.
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

// Inputs logits, targets, top.
std::unique_ptr<PreparedKernel> cross_entropy_sums(const KernelRequest& request) {
  const Rows rows(request.inputs[0].shape);
  const RowPart classes(request, rows.length, "classes");
  return with_targets(request.inputs[1].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      using W = Wide<T>;
      return kernel([rows, classes](const KernelMemory& memory) {
        require_ids("cross_entropy_sums", input<I>(memory, 1), rows.count, -1, classes.all);
        parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            const T* logits = input<T>(memory, 0) + r * rows.length;
            const auto target = static_cast<std::int64_t>(input<I>(memory, 1)[r]);
            output<W>(memory, 0)[r] = sum_of_exp(logits, rows.length, load(input<T>(memory, 2)[r]));
            output<W>(memory, 1)[r] =
                classes.has(target) ? load(logits[target - classes.first]) : W{0};
          }
        });
      });
    });
  });
}

// dlogits = dsum e^(logits - top) + dpicked [i = target]; inputs dsum, dpicked, logits, targets, top.
std::unique_ptr<PreparedKernel> cross_entropy_sums_backward(const KernelRequest& request) {
  const Rows rows(request.inputs[2].shape);
  const RowPart classes(request, rows.length, "classes");
  return with_targets(request.inputs[3].dtype, [&]<class I>(I) {
    return for_float(request.inputs[2].dtype, [&]<class T>(T) {
      using W = Wide<T>;
      return kernel([rows, classes](const KernelMemory& memory) {
        require_ids("cross_entropy_sums_backward", input<I>(memory, 3), rows.count, -1,
                    classes.all);
        parallel(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            const T* logits = input<T>(memory, 2) + r * rows.length;
            T* dlogits = output<T>(memory, 0) + r * rows.length;
            const auto target = static_cast<std::int64_t>(input<I>(memory, 3)[r]);
            const W top = load(input<T>(memory, 4)[r]);
            const W weight = input<W>(memory, 0)[r];
#pragma omp simd
            for (std::int64_t i = 0; i < rows.length; ++i) {
              store(dlogits[i], exp_of(load(logits[i]) - top) * weight);
            }
            if (classes.has(target)) {
              T& picked = dlogits[target - classes.first];
              store(picked, load(picked) + input<W>(memory, 1)[r]);
            }
          }
        });
      });
    });
  });
}

// Inputs sum, picked, top, targets; one value per row.
std::unique_ptr<PreparedKernel> cross_entropy(const KernelRequest& request) {
  const std::int64_t rows = request.inputs[0].shape.element_count();
  return with_targets(request.inputs[3].dtype, [&]<class I>(I) {
    return for_float(request.inputs[2].dtype, [&]<class T>(T) {
      using W = Wide<T>;
      return kernel([rows](const KernelMemory& memory) {
        for (std::int64_t r = 0; r < rows; ++r) {
          const W lse = load(input<T>(memory, 2)[r]) + std::log(input<W>(memory, 0)[r]);
          output<W>(memory, 0)[r] =
              input<I>(memory, 3)[r] < 0 ? W{0} : lse - input<W>(memory, 1)[r];
        }
      });
    });
  });
}

// Inputs dloss, sum, targets.
std::unique_ptr<PreparedKernel> cross_entropy_backward(const KernelRequest& request) {
  const std::int64_t rows = request.inputs[0].shape.element_count();
  return with_targets(request.inputs[2].dtype, [&]<class I>(I) {
    return for_float(request.inputs[0].dtype, [&]<class T>(T) {
      return kernel([rows](const KernelMemory& memory) {
        for (std::int64_t r = 0; r < rows; ++r) {
          const bool ignored = input<I>(memory, 2)[r] < 0;
          const Wide<T> dloss = ignored ? Wide<T>{0} : load(input<T>(memory, 0)[r]);
          store(output<T>(memory, 0)[r], dloss / load(input<T>(memory, 1)[r]));
          store(output<T>(memory, 1)[r], -dloss);
        }
      });
    });
  });
}

}  // namespace

std::vector<KernelRow> loss_kernels() {
  return {{"cross_entropy", cross_entropy},
          {"cross_entropy_backward", cross_entropy_backward},
          {"cross_entropy_sums", cross_entropy_sums},
          {"cross_entropy_sums_backward", cross_entropy_sums_backward},
          {"softmax", softmax},
          {"softmax_backward", softmax_backward}};
}

}  // namespace trireme::cpu::TRIREME_ISA
