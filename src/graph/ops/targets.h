// Targets of a classification: for each row of logits, the index of its class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/op.h"

namespace trireme::ops {

/// A target whose row has no loss and no gradient.
inline constexpr double kIgnored = -1;

/// The number of classes: the attribute, or the number of logits if it is 0.
[[nodiscard]] inline std::int64_t classes_of(const Signature& s, std::size_t logits) {
  return s.integer("classes") > 0 ? s.integer("classes") : s.shape(logits).dims().back();
}

}  // namespace trireme::ops
