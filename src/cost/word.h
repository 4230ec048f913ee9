// How wide values are in costs.
#pragma once

#include <string_view>

namespace trireme {

/// Bytes of an activation, and of a parameter as computed with, if matrix products are of this type: at least 16 bits.
constexpr double word_of(std::string_view dtype) {
  return dtype == "f64" ? 8 : dtype == "f32" ? 4 : 2;
}

}  // namespace trireme
