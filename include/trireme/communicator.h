// Communicator: this rank's groups along the axes of a mesh. One thread at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "trireme/comm.h"
#include "trireme/mesh.h"

namespace trireme {

class Communicator {
 public:
  /// Collective: every rank of the world calls it with the same mesh, which has as many devices as the world has ranks.
  /// Rank r of the world is rank r of the mesh. The world must outlive this object. Throws Error(Usage) if the sizes
  /// differ.
  Communicator(World& world, const Mesh& mesh);

  [[nodiscard]] World& world() noexcept { return world_; }
  /// The ranks that differ from this one only along the axis. Throws Error(Usage) if there is no such axis.
  [[nodiscard]] Group& along(std::string_view axis);

 private:
  World& world_;
  std::map<std::string, Group, std::less<>> groups_;
};

}  // namespace trireme
