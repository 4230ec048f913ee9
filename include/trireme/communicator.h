// Communicator: ranks arranged as a mesh, and this rank's groups along its axes. One thread at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm.h"
#include "trireme/mesh.h"

namespace trireme {

class Communicator {
 public:
  /// Collective: every rank of the world calls it with the same mesh, which has as many devices as the world has ranks.
  /// Rank r of the world is rank r of the mesh. The world must outlive this object. Throws Error(Usage) if the sizes
  /// differ.
  Communicator(World& world, const Mesh& mesh);
  /// The same for the ranks of a group, such as one of several replicas: rank r of the group is rank r of the mesh. The
  /// group's world must outlive this object.
  Communicator(Group ranks, const Mesh& mesh);

  /// All ranks of the mesh.
  [[nodiscard]] Group& all() noexcept { return all_; }
  /// This rank in the mesh.
  [[nodiscard]] Rank rank() const { return all_.rank(); }
  /// The axes of the mesh, in the same order on all ranks.
  [[nodiscard]] std::vector<std::string> axes() const;
  /// The ranks that differ from this rank only along the axis. Throws Error(Usage) if there is no such axis.
  [[nodiscard]] Group& along(std::string_view axis);

 private:
  Group all_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace trireme
