// The part of a cluster's text form that describes a measured host, and helpers shared by both
// parts.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "trireme/cluster.h"

namespace trireme {

inline constexpr std::string_view kClusterText = "cluster";

[[nodiscard]] Json host_to_json(const HostCosts& host);
/// Throws Error(Input) naming the field.
[[nodiscard]] HostCosts read_host(const Json& value, const std::string& path);

/// An integer field that fits an int. Throws Error(Input) otherwise.
[[nodiscard]] int small_integer(const JsonObject& object, std::string_view field);

}  // namespace trireme
