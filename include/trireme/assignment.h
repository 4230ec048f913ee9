// Assignments: what a plan specifies for single ops and values: a device or stage for ops, a placement or a device for
// values. Everything else is derived. Plain data; any thread.
//
// A selector names ops or values:
//
//   relu.1         the op or value with this name; an op has the name of its first result
//   layers.*.bias  everything that matches; * stands for any characters except '/'
//   @block(3)      the ops of a model block
//
// A pattern without '/' and a block select ops of the forward pass. An exact name overrides patterns and blocks, and
// these override "*". Patterns and blocks that select the same op must agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A place along the axis `pipe` of the mesh.
struct PipeLocation {
  /// A device refers to its stage, if the schedule assigns it exactly one.
  enum class Unit : std::uint8_t { Stage, Device } unit = Unit::Stage;
  int index = 0;
  friend bool operator==(const PipeLocation&, const PipeLocation&) = default;
};
/// "stage", "device".
[[nodiscard]] std::string_view to_text(PipeLocation::Unit unit);
/// "device 1".
[[nodiscard]] std::string to_text(const PipeLocation& location);

struct OpAssignment {
  std::string selector{};
  PipeLocation location{};
  friend bool operator==(const OpAssignment&, const OpAssignment&) = default;
};

/// How one axis of the mesh places a value.
struct AxisPlacement {
  std::string axis{};
  std::optional<int> sharded{};  ///< the dimension; none: replicated
  friend bool operator==(const AxisPlacement&, const AxisPlacement&) = default;
};
/// "sharded(1)", "replicated". parse_axis_placement throws Error(Usage).
[[nodiscard]] std::string to_text(const AxisPlacement& placement);
[[nodiscard]] AxisPlacement parse_axis_placement(std::string_view axis, std::string_view text);

struct ValueAssignment {
  std::string selector{};
  /// Where parameters are stored and updated. If another device computes with them, they are sent in every step.
  std::optional<PipeLocation> location{};
  /// Axes that are not listed place the value as if there were no assignment.
  std::vector<AxisPlacement> axes{};
  friend bool operator==(const ValueAssignment&, const ValueAssignment&) = default;
};

}  // namespace trireme
