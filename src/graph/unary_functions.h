// The functions of one number that ops apply to every element, a row each. The reference, the loops of the CPU backend
// and its fused loops all iterate over this table: a function without an implementation does not compile. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace trireme {

enum class UnaryFunction : std::uint8_t {
  Exp,
  Gelu,
  Log,
  Relu,
  Sigmoid,
  Silu,
  Softplus,
  Sqrt,
  Square,
  Tanh,
};

struct UnaryRow {
  UnaryFunction function;
  std::string_view op;        ///< y = f(x)
  std::string_view backward;  ///< dx = f'(x) dy
  std::string_view summary;
};

/// In the order of the enum.
inline constexpr std::array kUnaryFunctions{
    UnaryRow{UnaryFunction::Exp, "exp", "exp_backward", "y = e^x"},
    UnaryRow{UnaryFunction::Gelu, "gelu", "gelu_backward",
             "y = x/2 (1 + tanh(0.797 (x + 0.0447 x^3)))"},
    UnaryRow{UnaryFunction::Log, "log", "log_backward", "y = ln x"},
    UnaryRow{UnaryFunction::Relu, "relu", "relu_backward", "y = max(x, 0)"},
    UnaryRow{UnaryFunction::Sigmoid, "sigmoid", "sigmoid_backward", "y = 1 / (1 + e^-x)"},
    UnaryRow{UnaryFunction::Silu, "silu", "silu_backward", "y = x / (1 + e^-x)"},
    UnaryRow{UnaryFunction::Softplus, "softplus", "softplus_backward", "y = ln(1 + e^x)"},
    UnaryRow{UnaryFunction::Sqrt, "sqrt", "sqrt_backward", "y = x^(1/2)"},
    UnaryRow{UnaryFunction::Square, "square", "square_backward", "y = x^2"},
    UnaryRow{UnaryFunction::Tanh, "tanh", "tanh_backward", "y = tanh x"},
};

/// Calls `f.operator()<kFunction>(row)` for each row.
template <class F>
void for_each_unary_function(const F& f) {
  [&]<std::size_t... kRows>(std::index_sequence<kRows...>) {
    (f.template operator()<kUnaryFunctions[kRows].function>(kUnaryFunctions[kRows]), ...);
  }
  (std::make_index_sequence<kUnaryFunctions.size()>{});
}

}  // namespace trireme
