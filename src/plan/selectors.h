// Selectors of assignments: the ops and values that a name, a pattern or a block matches. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/graph.h"

namespace trireme {

/// Selectors of a higher rank decide first: an exact name, then patterns and blocks, then "*", the default.
enum class SelectorRank : std::uint8_t { Name, Pattern, Default };
[[nodiscard]] SelectorRank rank_of(std::string_view selector);

[[nodiscard]] bool is_pattern(std::string_view selector);
/// Whether the name matches a pattern, in which * matches any characters except '/'.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

/// "@block(3)".
[[nodiscard]] std::string block_selector(std::int32_t block);

/// Whether the selector of ops selects the node, which has results.
[[nodiscard]] bool selects(std::string_view selector, const Node& node, const Graph& graph);

}  // namespace trireme
