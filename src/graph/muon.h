// The constants and the matrices of the op muon, for its reference and its kernels.
#pragma once

#include <cstdint>

#include "trireme/op.h"

namespace trireme::muon {

/// X <- kA X + (kB G + kC G^2) X with G = X X^T: brings every singular value in (0, 1] into about [0.7, 1.2] in
/// kIterations (Jordan et al., 2024).
inline constexpr double kA = 3.4445;
inline constexpr double kB = -4.7750;
inline constexpr double kC = 2.0315;
inline constexpr int kIterations = 5;
/// Keeps a matrix of zeros as it is.
inline constexpr double kTiny = 1e-7;

/// The roles of p's dimensions: the first `batch` count matrices, the next `rows` run over their rows, the others over
/// their columns.
struct Matrices {
  std::int64_t count = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};
[[nodiscard]] Matrices matrices_of(const Signature& s);

/// The scale of an orthogonal matrix, chosen so that the root mean square of its elements is 0.2, as in a step of
/// AdamW, so that both use the same learning rate (Liu et al., 2025).
[[nodiscard]] double scale_of(const Matrices& matrices);

}  // namespace trireme::muon
