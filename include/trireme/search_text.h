// Parsers for the options of a plan search. Each throws Error(Usage). Callable from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/mesh.h"
#include "trireme/planner.h"

namespace trireme {

/// "512" sequences, or "16Mtokens" rounded to whole sequences of this length.
[[nodiscard]] std::int64_t parse_batch(const std::string& text, std::int64_t length);

/// "15T", "300B", "20M", "1e9".
[[nodiscard]] double parse_token_count(const std::string& text);

/// Restricts the search to this size of the axis.
void fix_axis(SearchSpace& space, const MeshAxis& axis);

}  // namespace trireme
