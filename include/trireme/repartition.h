// Repartition: converts one layout of a matrix on p ranks to another: the collective, the bytes that each rank sends,
// and the time by the alpha-beta-gamma model. Callable from any thread.
//
//                 replicated
//        slice   ^          ^  all-gather        partial -> replicated: all-reduce
//               v            v                   partial -> row, column: reduce-scatter
//            row  <- all-to-all ->  column       any -> partial: local, others hold zeros
//
// With n bytes, p ranks and ring algorithms (pairwise for all-to-all):
//
//   slice            0
//   all-gather       (p-1) alpha + (p-1)/p n beta
//   all-to-all       (p-1) alpha + (p-1)/p n/p beta
//   reduce-scatter   (p-1) alpha + (p-1)/p n (beta + gamma)
//   all-reduce       2 (p-1) alpha + (p-1)/p n (2 beta + gamma)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/collective_cost.h"
#include "trireme/program.h"
#include "trireme/tensor.h"
#include "trireme/units.h"

namespace trireme::predict {

/// How a matrix is distributed: replicated; sharded by rows or columns; or as a sum, of which each rank has a term.
enum class MatrixLayout : std::uint8_t { Replicated, Row, Column, Partial };
inline constexpr std::array<MatrixLayout, 4> kLayouts{MatrixLayout::Replicated, MatrixLayout::Row,
                                                      MatrixLayout::Column, MatrixLayout::Partial};
/// "replicated", "row", "column", "partial"; parse_layout throws Error(Usage) listing them.
[[nodiscard]] std::string_view to_text(MatrixLayout layout);
[[nodiscard]] MatrixLayout parse_layout(std::string_view text);

struct Repartition {
  MatrixLayout from = MatrixLayout::Replicated;
  MatrixLayout to = MatrixLayout::Replicated;
  TensorType type{};  ///< of the whole matrix
  /// By rank: input "x", its part in `from`; output "y", its part in `to`.
  std::vector<Program> programs{};
  /// "all_gather", "all_to_all", "all_reduce", "reduce_scatter"; "slice" and "pad" are local; "" if nothing changes.
  std::string op{};
  std::vector<std::int64_t> sent{};  ///< bytes, by rank
  Seconds seconds{};

  [[nodiscard]] int ranks() const { return static_cast<int>(programs.size()); }
  [[nodiscard]] std::int64_t total_sent() const;
};

/// The matrix has two dimensions, of any size, and floating-point elements. Throws Error(Usage) otherwise.
[[nodiscard]] Repartition repartition(const TensorType& type, MatrixLayout from, MatrixLayout to,
                                      int ranks, const CostModel& costs = {});

/// A rank's part of a row-major matrix in a layout. Terms of a partial matrix are all different and add up to it.
[[nodiscard]] std::vector<double> part_of(const std::vector<double>& whole, const Shape& shape,
                                          MatrixLayout layout, int ranks, int rank);

}  // namespace trireme::predict
