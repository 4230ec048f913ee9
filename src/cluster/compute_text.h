// The part of a host's text form that describes how fast it computes.
#pragma once

#include <string>

#include "base/json.h"
#include "trireme/compute_costs.h"

namespace trireme {

[[nodiscard]] Json compute_to_json(const ComputeCosts& costs);
/// Throws Error(Input) naming the field.
[[nodiscard]] ComputeCosts read_compute(const Json& value, const std::string& path);

}  // namespace trireme
