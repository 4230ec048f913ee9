// Element-wise ops.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"
#include "backend/cpu/loops/functions.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class F>
std::unique_ptr<PreparedKernel> unary(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n](const KernelMemory& memory) {
      const T* x = input<T>(memory, 0);
      T* y = output<T>(memory, 0);
      parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          store(y[i], F::value(load(x[i])));
        }
      });
    });
  });
}

template <class F>
std::unique_ptr<PreparedKernel> unary_backward(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n](const KernelMemory& memory) {
      const T* x = input<T>(memory, 0);
      const T* dy = input<T>(memory, 1);
      T* dx = output<T>(memory, 0);
      parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          store(dx[i], F::slope(load(x[i])) * load(dy[i]));
        }
      });
    });
  });
}

/// b is repeated for every `period` elements of a.
template <class F>
std::unique_ptr<PreparedKernel> binary(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  const std::int64_t period = request.inputs[1].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n, period](const KernelMemory& memory) {
      const T* a = input<T>(memory, 0);
      const T* b = input<T>(memory, 1);
      T* y = output<T>(memory, 0);
      if (n == 0) {
        return;
      }
      if (period == 1) {
        const Wide<T> constant = load(b[0]);
        parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            store(y[i], F::value(load(a[i]), constant));
          }
        });
        return;
      }
      parallel(n, std::max(period, kSerial / period * period),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; row += period) {
#pragma omp simd
                   for (std::int64_t i = 0; i < period; ++i) {
                     store(y[row + i], F::value(load(a[row + i]), load(b[i])));
                   }
                 }
               });
    });
  });
}

std::unique_ptr<PreparedKernel> scale(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  const double factor = signature_of(request).number("factor");
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n, by = static_cast<Wide<T>>(factor)](const KernelMemory& memory) {
      const T* x = input<T>(memory, 0);
      T* y = output<T>(memory, 0);
      parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          store(y[i], by * load(x[i]));
        }
      });
    });
  });
}

std::unique_ptr<PreparedKernel> fill(const KernelRequest& request) {
  const std::int64_t n = request.outputs[0].shape.element_count();
  const double value = signature_of(request).number("value");
  return for_float(request.outputs[0].dtype, [&]<class T>(T) {
    return kernel([n, value](const KernelMemory& memory) {
      T* y = output<T>(memory, 0);
      T element{};
      store(element, static_cast<Wide<T>>(value));
      parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
        std::fill(y + begin, y + end, element);
      });
    });
  });
}

/// Between floating-point types; integers are left to the reference.
std::unique_ptr<PreparedKernel> cast(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class From>(From) {
    return for_float(request.outputs[0].dtype, [&]<class To>(To) {
      return kernel([n](const KernelMemory& memory) {
        const From* x = input<From>(memory, 0);
        To* y = output<To>(memory, 0);
        parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            store(y[i], static_cast<Wide<To>>(load(x[i])));
          }
        });
      });
    });
  });
}

std::unique_ptr<PreparedKernel> copy(const KernelRequest& request) {
  const std::int64_t bytes = size_of(request.inputs[0]).count;
  return kernel([bytes](const KernelMemory& memory) {
    parallel(bytes, kSerial * 4, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(memory.outputs[0] + begin, memory.inputs[0] + begin, end - begin);
    });
  });
}

/// For `wait`: the runtime has waited for its inputs.
std::unique_ptr<PreparedKernel> nothing(const KernelRequest&) {
  return kernel([](const KernelMemory&) {});
}

}  // namespace

std::vector<KernelRow> elementwise_kernels() {
  std::vector<KernelRow> rows{{"add", binary<Add>},
                              {"cast", cast},
                              {"copy", copy},
                              {"divide", binary<Divide>},
                              {"fill", fill},
                              {"maximum", binary<Maximum>},
                              {"minimum", binary<Minimum>},
                              {"multiply", binary<Multiply>},
                              {"scale", scale},
                              {"subtract", binary<Subtract>},
                              {"wait", nothing}};
  for_each_unary_function([&]<UnaryFunction kFunction>(const UnaryRow& row) {
    rows.push_back({row.op, unary<Function<kFunction>>});
    rows.push_back({row.backward, unary_backward<Function<kFunction>>});
  });
  return rows;
}

}  // namespace trireme::cpu::TRIREME_ISA
