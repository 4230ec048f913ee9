#include <fmt/format.h>

#include "base/text.h"
#include "trireme/assignment.h"
#include "trireme/error.h"

namespace trireme {

std::string_view to_text(PipeLocation::Unit unit) {
  switch (unit) {
    case PipeLocation::Unit::Stage:
      return "stage";
    case PipeLocation::Unit::Device:
      return "device";
  }
  return "?";
}

std::string to_text(const PipeLocation& location) {
  return fmt::format("{} {}", to_text(location.unit), location.index);
}

std::string to_text(const AxisPlacement& placement) {
  return placement.sharded ? fmt::format("sharded({})", *placement.sharded) : "replicated";
}

AxisPlacement parse_axis_placement(std::string_view axis, std::string_view text) {
  AxisPlacement placement{.axis = std::string(axis), .sharded = {}};
  if (text == "replicated") {
    return placement;
  }
  constexpr std::string_view kSharded = "sharded(";
  constexpr std::int64_t kMaxDimension = 64;
  if (text.starts_with(kSharded) && text.ends_with(")")) {
    const auto dimension =
        parse_integer(text.substr(kSharded.size(), text.size() - kSharded.size() - 1));
    if (dimension && *dimension >= 0 && *dimension < kMaxDimension) {
      placement.sharded = static_cast<int>(*dimension);
      return placement;
    }
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("invalid placement '{}'; use replicated, or sharded(0) for a value sharded "
                  "along its first dimension",
                  text));
}

}  // namespace trireme
