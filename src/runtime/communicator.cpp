#include "trireme/communicator.h"

#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

Communicator::Communicator(World& world, const Mesh& mesh) : Communicator(world.all(), mesh) {}

Communicator::Communicator(Group ranks, const Mesh& mesh) : all_(std::move(ranks)) {
  if (mesh.devices() != all_.size()) {
    throw Error(ErrorKind::Usage, fmt::format("the mesh {} has {} devices, the world {} ranks",
                                              to_text(mesh), mesh.devices(), all_.size()));
  }
  for (const MeshAxis& axis : mesh.axes()) {
    const std::vector<int> along = mesh.group_of(axis.name, rank());
    groups_.emplace(axis.name, all_.split(along.front(), rank()));
  }
}

std::vector<std::string> Communicator::axes() const {
  std::vector<std::string> names;
  names.reserve(groups_.size());
  for (const auto& [name, group] : groups_) {
    names.push_back(name);
  }
  return names;
}

Group& Communicator::along(std::string_view axis) {
  const auto it = groups_.find(axis);
  if (it == groups_.end()) {
    throw Error(ErrorKind::Usage, fmt::format("the mesh has no axis {}", axis));
  }
  return it->second;
}

}  // namespace trireme
