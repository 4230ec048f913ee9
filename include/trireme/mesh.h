// Mesh: the ranks of a cluster arranged along named axes, one axis per kind of parallelism.
//
// The last axis varies fastest: in "data=2,tensor=4" the ranks 0..3 form one tensor group and 0, 4
// one data group. Put the axis that communicates most last, so that its groups are neighbors.
// Immutable; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"
#include "trireme/valid.h"

namespace trireme {

struct MeshAxis {
  /// One of data, tensor, context, expert and pipe, or any other word of letters, digits, '-' and '_'.
  std::string name{};
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  /// No axes: one device.
  Mesh() = default;
  /// Throws Error(Usage) on an invalid or duplicate name, a size below 1, or more devices than fit
  /// in an int.
  explicit Mesh(std::vector<MeshAxis> axes);

  [[nodiscard]] const std::vector<MeshAxis>& axes() const noexcept { return axes_; }
  /// The product of the sizes.
  [[nodiscard]] int devices() const noexcept { return devices_; }
  /// The size of an axis; 1 if the mesh does not have it.
  [[nodiscard]] int size(std::string_view axis) const noexcept;

  // These throw Error(Usage) if the rank, a coordinate or the axis is not in the mesh.

  /// The coordinates of a rank: its index along each axis, in the order of axes().
  [[nodiscard]] std::vector<int> coordinates(int rank) const;
  /// The rank at these coordinates; the inverse of coordinates().
  [[nodiscard]] int rank_at(const std::vector<int>& coordinates) const;
  /// The ranks that differ from `rank` only along `axis`, including `rank`, in the order of the
  /// axis.
  [[nodiscard]] std::vector<int> group_of(std::string_view axis, int rank) const;
  /// All groups along `axis`; every rank is in exactly one. Ordered by their first rank.
  [[nodiscard]] std::vector<std::vector<int>> groups(std::string_view axis) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  [[nodiscard]] std::size_t index_of(std::string_view axis) const;
  /// The distance in ranks between neighbors along axis number i.
  [[nodiscard]] int stride(std::size_t i) const noexcept;

  std::vector<MeshAxis> axes_;
  int devices_ = 1;
};

/// "data=2,tensor=4"; "" if there are no axes.
[[nodiscard]] std::string to_text(const Mesh& mesh);

/// Parses "data=2,tensor=4". Throws Error(Usage) otherwise.
[[nodiscard]] Mesh parse_mesh(std::string_view text);

/// Why the mesh does not fit the cluster, in words; empty if it uses exactly the cluster's devices.
[[nodiscard]] std::vector<std::string> problems(const Mesh& mesh, const Cluster& cluster);

}  // namespace trireme
