// One way to compute an op over the axes of a mesh, and what it costs; see op_planning.h. Plain data; any thread.
#pragma once

#include <vector>

namespace trireme {

/// How one axis of the mesh places a value: the dimension that it shards, or one of these.
inline constexpr int kReplicatedDim = -1;
inline constexpr int kPartialDim = -2;
/// By axis of the mesh.
using AxisDims = std::vector<int>;

/// One way to make a value, or to compute an op.
struct OpStrategy {
  std::vector<AxisDims> inputs{};  ///< as read, by input of the op
  /// By output of the op, after partial results are reduced. For a stored value: the value itself.
  std::vector<AxisDims> outputs{};
  AxisDims factors{};  ///< by axis: the factor that is sharded; -1: none
  double seconds = 0;  ///< forward, backward and update, with the reduction of partial results
  double bytes = 0;    ///< of a device: what is kept of the outputs
};

}  // namespace trireme
