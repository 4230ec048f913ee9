// The functions of element-wise ops, and their derivatives, as in graph/ops/unary.cpp and binary.cpp.
#pragma once

#include "backend/cpu/loops/elements.h"
#include "graph/unary_functions.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

inline constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2/pi)
inline constexpr double kGeluCubic = 0.044715;

template <class W>
W sigmoid(W x) {
  return 1 / (1 + exp_of(-x));
}
/// (1 + tanh(u)) / 2 = sigmoid(2u), which is accurate near 0.
template <class W>
W gelu_share(W x) {
  return sigmoid(static_cast<W>(2 * kGeluScale) * (x + static_cast<W>(kGeluCubic) * x * x * x));
}

/// A function of graph/unary_functions.h and its slope.
template <UnaryFunction kFunction>
struct Function;

template <>
struct Function<UnaryFunction::Exp> {
  template <class W>
  static W value(W x) {
    return exp_of(x);
  }
  template <class W>
  static W slope(W x) {
    return exp_of(x);
  }
};
template <>
struct Function<UnaryFunction::Gelu> {
  template <class W>
  static W value(W x) {
    return x * gelu_share(x);
  }
  template <class W>
  static W slope(W x) {
    const W share = gelu_share(x);
    const W inner = static_cast<W>(kGeluScale) * (1 + static_cast<W>(3 * kGeluCubic) * x * x);
    return share + 2 * x * share * (1 - share) * inner;
  }
};
template <>
struct Function<UnaryFunction::Log> {
  template <class W>
  static W value(W x) {
    return std::log(x);
  }
  template <class W>
  static W slope(W x) {
    return 1 / x;
  }
};
template <>
struct Function<UnaryFunction::Relu> {
  template <class W>
  static W value(W x) {
    return x > 0 ? x : W{0};
  }
  template <class W>
  static W slope(W x) {
    return x > 0 ? W{1} : W{0};
  }
};
template <>
struct Function<UnaryFunction::Sigmoid> {
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
template <>
struct Function<UnaryFunction::Silu> {
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
template <>
struct Function<UnaryFunction::Softplus> {
  template <class W>
  static W value(W x) {
    return x > 30 ? x : std::log1p(exp_of(x));
  }
  template <class W>
  static W slope(W x) {
    return sigmoid(x);
  }
};
template <>
struct Function<UnaryFunction::Sqrt> {
  template <class W>
  static W value(W x) {
    return std::sqrt(x);
  }
  template <class W>
  static W slope(W x) {
    return static_cast<W>(0.5) / std::sqrt(x);
  }
};
template <>
struct Function<UnaryFunction::Square> {
  template <class W>
  static W value(W x) {
    return x * x;
  }
  template <class W>
  static W slope(W x) {
    return 2 * x;
  }
};
template <>
struct Function<UnaryFunction::Tanh> {
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

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
