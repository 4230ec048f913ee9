// Placement: how a value is distributed over the devices of a mesh. Plain data; any thread.
//
// On each axis a value is replicated (the axis is not named), sharded along a dimension, or partial: every device
// has a tensor of the full size, and the value is their sum (or maximum). Axes are named by their
// numbers in an Axes. A dimension may be sharded by several axes, the first being the outermost: sharded by 0
// and then 1, device (i, j) has shard j of shard i.
//
// Besides the mesh's axes there may be one for micro-batches, along which shards are not on different devices but
// successive in time: a gradient that is partial there is accumulated.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/mesh.h"
#include "trireme/tensor.h"

namespace trireme {

/// How partial values are combined.
enum class Merge : std::uint8_t { Sum, Maximum };
/// "sum", "max".
[[nodiscard]] std::string_view to_text(Merge merge);

/// The axes that placements refer to; excludes those of size 1.
using Axes = std::vector<MeshAxis>;
/// -1 if there is no such axis.
[[nodiscard]] int find_axis(const Axes& axes, std::string_view name);

struct Placement {
  struct Dim {
    std::vector<int> axes{};  ///< outermost first
    /// Shard boundaries fall on multiples of this; 1 if that makes no difference.
    std::int64_t unit = 1;
    friend bool operator==(const Dim&, const Dim&) = default;
  };
  std::vector<Dim> dims{};
  std::map<int, Merge> partial{};

  /// A replicated value of this rank.
  [[nodiscard]] static Placement replicated(int rank);
  [[nodiscard]] bool mentions(int axis) const;
  /// The dimension that the axis shards; -1 if none.
  [[nodiscard]] int dimension_of(int axis) const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// "[0:data,1:tensor/4|sum:micro]": dimension 0 is sharded by data, 1 by tensor in units of 4, and the value is partial
/// (a sum) along micro. "[]" is replicated.
[[nodiscard]] std::string to_text(const Placement& placement, const Axes& axes);

/// The same sharding with a unit of 1 if the boundaries are the same.
[[nodiscard]] Placement::Dim canonical(Placement::Dim dim, std::int64_t size, const Axes& axes);
/// The same placement with units of 1 where the boundaries are the same.
[[nodiscard]] Placement canonical(Placement placement, const Shape& shape, const Axes& axes);

/// The shard of a dimension of `size` on the device at `coordinates`, one for each axis. Only the first `levels` axes of
/// the dimension count; all by default.
[[nodiscard]] IndexRange block_at(const Placement::Dim& dim, std::int64_t size, const Axes& axes,
                                  std::span<const int> coordinates,
                                  std::size_t levels = ~std::size_t{0});

/// The shape of that device's shard of a value of `shape`.
[[nodiscard]] Shape shape_at(const Placement& placement, const Shape& shape, const Axes& axes,
                             std::span<const int> coordinates);

}  // namespace trireme
