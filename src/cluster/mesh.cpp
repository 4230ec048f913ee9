#include "trireme/mesh.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kMax = std::numeric_limits<int>::max();

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::Usage, message);
}

bool is_word(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), fits);
}

int checked_devices(const std::vector<MeshAxis>& axes) {
  int devices = 1;
  for (const MeshAxis& axis : axes) {
    if (!is_word(axis.name)) {
      refuse(
          fmt::format("mesh: invalid axis name '{}'; use letters, digits, '-' and '_'", axis.name));
    }
    if (std::count_if(axes.begin(), axes.end(),
                      [&](const MeshAxis& a) { return a.name == axis.name; }) > 1) {
      refuse(fmt::format("mesh: axis '{}' is given twice", axis.name));
    }
    if (axis.size < 1) {
      refuse(
          fmt::format("mesh: axis '{}' has size {}; it must be at least 1", axis.name, axis.size));
    }
    if (devices > kMax / axis.size) {
      refuse(fmt::format("mesh: more than {} devices", kMax));
    }
    devices *= axis.size;
  }
  return devices;
}

MeshAxis parse_axis(std::string_view part, std::string_view whole) {
  const std::vector<std::string_view> sides = split(part, '=');
  const std::optional<std::int64_t> size =
      sides.size() == 2 ? parse_integer(trim(sides[1])) : std::nullopt;
  if (!size) {
    refuse(fmt::format("'{}' is not a mesh; write it like data=2,tensor=4", whole));
  }
  if (*size < 1 || *size > kMax) {
    refuse(fmt::format("mesh: axis '{}' has size {}; it must be 1 to {}", trim(sides[0]), *size,
                       kMax));
  }
  return {.name = std::string(trim(sides[0])), .size = static_cast<int>(*size)};
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)), devices_(checked_devices(axes_)) {}

int Mesh::size(std::string_view axis) const noexcept {
  const auto at =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
  return at == axes_.end() ? 1 : at->size;
}

std::size_t Mesh::index_of(std::string_view axis) const {
  const auto at =
      std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
  if (at == axes_.end()) {
    refuse(fmt::format("mesh '{}' has no axis '{}'", to_text(*this), axis));
  }
  return at - axes_.begin();
}

int Mesh::stride(std::size_t i) const noexcept {
  int stride = 1;
  for (std::size_t inner = i + 1; inner < axes_.size(); ++inner) {
    stride *= axes_[inner].size;
  }
  return stride;
}

std::vector<int> Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= devices_) {
    refuse(fmt::format("mesh {} has ranks 0 to {}, not {}", to_text(*this), devices_ - 1, rank));
  }
  std::vector<int> coordinates(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return coordinates;
}

int Mesh::rank_at(const std::vector<int>& coordinates) const {
  if (coordinates.size() != axes_.size()) {
    refuse(fmt::format("mesh {} has {} axes, not {}", to_text(*this), axes_.size(),
                       coordinates.size()));
  }
  int rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size) {
      refuse(fmt::format("mesh {}: index {} is out of range along '{}'", to_text(*this),
                         coordinates[i], axes_[i].name));
    }
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

std::vector<int> Mesh::group_of(std::string_view axis, int rank) const {
  const std::size_t i = index_of(axis);
  const int step = stride(i);
  const int first = rank - coordinates(rank)[i] * step;
  std::vector<int> group(axes_[i].size);
  for (std::size_t member = 0; member < group.size(); ++member) {
    group[member] = first + static_cast<int>(member) * step;
  }
  return group;
}

std::vector<std::vector<int>> Mesh::groups(std::string_view axis) const {
  const std::size_t i = index_of(axis);
  const int step = stride(i);
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < devices_; ++rank) {
    if (rank / step % axes_[i].size == 0) {
      groups.push_back(group_of(axis, rank));
    }
  }
  return groups;
}

std::string to_text(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  }
  return text;
}

Mesh parse_mesh(std::string_view text) {
  if (trim(text).empty()) {
    return Mesh();
  }
  std::vector<MeshAxis> axes;
  for (const std::string_view part : split(text, ',')) {
    axes.push_back(parse_axis(part, text));
  }
  return Mesh(std::move(axes));
}

std::vector<std::string> problems(const Mesh& mesh, const Cluster& cluster) {
  if (mesh.devices() == cluster.devices()) {
    return {};
  }
  return {fmt::format("mesh {} has {} devices, but cluster {} has {} ({} nodes of {})",
                      to_text(mesh), mesh.devices(), cluster.name, cluster.devices(), cluster.nodes,
                      cluster.devices_per_node)};
}

}  // namespace trireme
