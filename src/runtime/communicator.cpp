#include "trireme/communicator.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

Communicator::Communicator(World& world, const Mesh& mesh) : world_(world) {
  if (mesh.devices() != world.size()) {
    throw Error(ErrorKind::Usage, fmt::format("the mesh {} has {} devices, the world {} ranks",
                                              to_text(mesh), mesh.devices(), world.size()));
  }
  for (const MeshAxis& axis : mesh.axes()) {
    const std::vector<int> ranks = mesh.group_of(axis.name, world.rank());
    groups_.emplace(axis.name, world.all().split(ranks.front(), world.rank()));
  }
}

Group& Communicator::along(std::string_view axis) {
  const auto it = groups_.find(axis);
  if (it == groups_.end()) {
    throw Error(ErrorKind::Usage, fmt::format("the mesh has no axis {}", axis));
  }
  return it->second;
}

}  // namespace trireme
