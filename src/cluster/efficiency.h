// The part of a cluster's text form that holds an efficiency.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "trireme/efficiency.h"

namespace trireme {

[[nodiscard]] Json efficiency_to_json(const Efficiency& efficiency);
/// Throws Error(Input) naming the field. Fields that are absent have their defaults.
[[nodiscard]] Efficiency read_efficiency(const Json& value, std::string_view what,
                                         const std::string& path);

}  // namespace trireme
