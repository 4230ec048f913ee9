// Ops that go element by element.
#include <cstring>

#include "backend/cpu/loops/elements.h"
#include "backend/cpu/loops/families.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2/pi)
constexpr double kGeluCubic = 0.044715;

template <class W>
W sigmoid(W x) {
  return 1 / (1 + exp_of(-x));
}
template <class W>
W gelu_tanh(W x) {
  return tanh_of(static_cast<W>(kGeluScale) * (x + static_cast<W>(kGeluCubic) * x * x * x));
}

// Functions and their slopes, as in graph/ops/unary.cpp.
struct Exp {
  template <class W>
  static W value(W x) {
    return exp_of(x);
  }
  template <class W>
  static W slope(W x) {
    return exp_of(x);
  }
};
struct Gelu {
  template <class W>
  static W value(W x) {
    return static_cast<W>(0.5) * x * (1 + gelu_tanh(x));
  }
  template <class W>
  static W slope(W x) {
    const W t = gelu_tanh(x);
    const W inner = static_cast<W>(kGeluScale) * (1 + static_cast<W>(3 * kGeluCubic) * x * x);
    return static_cast<W>(0.5) * (1 + t) + static_cast<W>(0.5) * x * (1 - t * t) * inner;
  }
};
struct Log {
  template <class W>
  static W value(W x) {
    return std::log(x);
  }
  template <class W>
  static W slope(W x) {
    return 1 / x;
  }
};
struct Relu {
  template <class W>
  static W value(W x) {
    return x > 0 ? x : W{0};
  }
  template <class W>
  static W slope(W x) {
    return x > 0 ? W{1} : W{0};
  }
};
struct Sigmoid {
  template <class W>
  static W value(W x) {
    return sigmoid(x);
  }
  template <class W>
  static W slope(W x) {
    const W s = sigmoid(x);
    return s * (1 - s);
  }
};
struct Silu {
  template <class W>
  static W value(W x) {
    return x * sigmoid(x);
  }
  template <class W>
  static W slope(W x) {
    const W s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
};
struct Softplus {
  template <class W>
  static W value(W x) {
    return x > 30 ? x : std::log1p(exp_of(x));
  }
  template <class W>
  static W slope(W x) {
    return sigmoid(x);
  }
};
struct Sqrt {
  template <class W>
  static W value(W x) {
    return std::sqrt(x);
  }
  template <class W>
  static W slope(W x) {
    return static_cast<W>(0.5) / std::sqrt(x);
  }
};
struct Square {
  template <class W>
  static W value(W x) {
    return x * x;
  }
  template <class W>
  static W slope(W x) {
    return 2 * x;
  }
};
struct Tanh {
  template <class W>
  static W value(W x) {
    return tanh_of(x);
  }
  template <class W>
  static W slope(W x) {
    const W t = tanh_of(x);
    return 1 - t * t;
  }
};

template <class Function>
std::unique_ptr<PreparedKernel> unary(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n](const KernelMemory& memory) {
      const T* x = input<T>(memory, 0);
      T* y = output<T>(memory, 0);
      parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          store(y[i], Function::value(load(x[i])));
        }
      });
    });
  });
}

template <class Function>
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
          store(dx[i], Function::slope(load(x[i])) * load(dy[i]));
        }
      });
    });
  });
}

struct Add {
  template <class W>
  static W value(W a, W b) {
    return a + b;
  }
};
struct Subtract {
  template <class W>
  static W value(W a, W b) {
    return a - b;
  }
};
struct Multiply {
  template <class W>
  static W value(W a, W b) {
    return a * b;
  }
};
struct Divide {
  template <class W>
  static W value(W a, W b) {
    return a / b;
  }
};
struct Maximum {
  template <class W>
  static W value(W a, W b) {
    return a > b ? a : b;
  }
};
struct Minimum {
  template <class W>
  static W value(W a, W b) {
    return a < b ? a : b;
  }
};

/// b is repeated for every `period` elements of a.
template <class Function>
std::unique_ptr<PreparedKernel> binary(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.element_count();
  const std::int64_t period = request.inputs[1].shape.element_count();
  return for_float(request.inputs[0].dtype, [&]<class T>(T) {
    return kernel([n, period](const KernelMemory& memory) {
      const T* a = input<T>(memory, 0);
      const T* b = input<T>(memory, 1);
      T* y = output<T>(memory, 0);
      if (period == 1) {
        const Wide<T> constant = load(b[0]);
        parallel(n, kSerial, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            store(y[i], Function::value(load(a[i]), constant));
          }
        });
        return;
      }
      parallel(n, std::max(period, kSerial / period * period),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; row += period) {
#pragma omp simd
                   for (std::int64_t i = 0; i < period; ++i) {
                     store(y[row + i], Function::value(load(a[row + i]), load(b[i])));
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

/// Between types of floating point; whole numbers are left to the reference.
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
      std::memcpy(memory.outputs[0] + begin, memory.inputs[0] + begin,
                  static_cast<std::size_t>(end - begin));
    });
  });
}

}  // namespace

std::vector<KernelRow> elementwise_kernels() {
  return {{"add", binary<Add>},
          {"cast", cast},
          {"copy", copy},
          {"divide", binary<Divide>},
          {"exp", unary<Exp>},
          {"exp_backward", unary_backward<Exp>},
          {"fill", fill},
          {"gelu", unary<Gelu>},
          {"gelu_backward", unary_backward<Gelu>},
          {"log", unary<Log>},
          {"log_backward", unary_backward<Log>},
          {"maximum", binary<Maximum>},
          {"minimum", binary<Minimum>},
          {"multiply", binary<Multiply>},
          {"relu", unary<Relu>},
          {"relu_backward", unary_backward<Relu>},
          {"scale", scale},
          {"sigmoid", unary<Sigmoid>},
          {"sigmoid_backward", unary_backward<Sigmoid>},
          {"silu", unary<Silu>},
          {"silu_backward", unary_backward<Silu>},
          {"softplus", unary<Softplus>},
          {"softplus_backward", unary_backward<Softplus>},
          {"sqrt", unary<Sqrt>},
          {"sqrt_backward", unary_backward<Sqrt>},
          {"square", unary<Square>},
          {"square_backward", unary_backward<Square>},
          {"subtract", binary<Subtract>},
          {"tanh", unary<Tanh>},
          {"tanh_backward", unary_backward<Tanh>}};
}

}  // namespace trireme::cpu::TRIREME_ISA
