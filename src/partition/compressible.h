// Which gradients of a training step a plan compresses: those that are summed along `data`, are large enough, and are
// sharded evenly. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/dim_names.h"
#include "trireme/graph.h"
#include "trireme/plan.h"

namespace trireme::partition {

using Numbers = std::vector<std::int64_t>;

/// The mesh axis along which gradients are compressed.
inline constexpr const char* kCompressedAxis = "data";

/// The elements of `a`, then those of `b`.
[[nodiscard]] Numbers joined(Numbers a, const Numbers& b);
[[nodiscard]] std::int64_t product(const Numbers& numbers);

struct Compressible {
  ValueId parameter{};
  ValueId gradient{};
  std::int32_t block = -1;
  Numbers dims{};
  Numbers shards{};  ///< by dimension: into how many shards other axes split it
  /// Power: the gradient is a matrix [a, b], where a are the dimensions before this one.
  std::size_t split = 0;

  /// The rows of that matrix.
  [[nodiscard]] std::int64_t rows() const;
};

/// In the order of the optimizer's nodes.
[[nodiscard]] std::vector<Compressible> compressible_gradients(const Graph& graph, const Plan& plan,
                                                               const DimNames& names);

}  // namespace trireme::partition
