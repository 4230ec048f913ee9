// The parsed equation of an einsum node, for backends.
#pragma once

#include <string>

#include "trireme/op.h"

namespace trireme {

/// "btk,kn->btn"
struct EinsumLetters {
  std::string a{};
  std::string b{};
  std::string result{};
};

/// Throws Error(Usage) through the signature if it is not a valid equation.
[[nodiscard]] EinsumLetters parse_equation(const Signature& s);

}  // namespace trireme
