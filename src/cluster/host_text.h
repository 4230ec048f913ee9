// The part of a cluster's text form that describes a measured host.
#pragma once

#include <string>

#include "base/json.h"
#include "trireme/cluster.h"

namespace trireme {

[[nodiscard]] Json host_to_json(const HostCosts& host);
/// Throws Error(Input) naming the field.
[[nodiscard]] HostCosts read_host(const Json& value, const std::string& path);

}  // namespace trireme
