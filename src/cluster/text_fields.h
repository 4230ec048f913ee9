// What all parts of a cluster's text form share.
#pragma once

#include <string_view>

#include "base/json.h"

namespace trireme {

inline constexpr std::string_view kClusterText = "cluster";

/// An integer field that fits an int. Throws Error(Input) otherwise.
[[nodiscard]] int small_integer(const JsonObject& object, std::string_view field);

}  // namespace trireme
