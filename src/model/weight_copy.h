// Copies elements between our parameters and Hugging Face tensors, with conversion between floating-point types.
#pragma once

#include <cstddef>
#include <span>

#include "model/weight_names.h"

namespace trireme {

/// Elements somewhere in memory, not necessarily aligned.
struct ConstElements {
  DType dtype = DType::F32;
  std::span<const std::byte> bytes{};
};
struct Elements {
  DType dtype = DType::F32;
  std::span<std::byte> bytes{};
};

/// Copies a piece out of their tensor, or into it. Rounds to nearest when narrowing; the same type keeps the bits. Both
/// must be floating point and as large as the piece says.
void copy_to_ours(const WeightPiece& piece, const ConstElements& theirs, const Elements& ours);
void copy_to_theirs(const WeightPiece& piece, const ConstElements& ours, const Elements& theirs);

}  // namespace trireme
