// The style sheet of the report page, and the script of a live one. Constants.
#pragma once

#include <string_view>

namespace trireme::report {

/// Light and dark by the reader's preference, two columns on a wide screen and one on a narrow one.
[[nodiscard]] std::string_view page_style();

/// Every few seconds, loads the page again and replaces each panel that changed, unless the keyboard focus is in it.
/// Expanded tables stay expanded.
[[nodiscard]] std::string_view live_script();

}  // namespace trireme::report
