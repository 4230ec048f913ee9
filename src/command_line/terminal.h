// Capabilities of standard output: colors and width.
#pragma once

#include "report/text_style.h"

namespace trireme::cli {

using report::display_width;
using report::padded;
using report::right_aligned;
using report::Style;
using report::styled;
using report::Terminal;

/// Determined from standard output and the environment (NO_COLOR).
[[nodiscard]] Terminal standard_output();
/// Columns for help: $COLUMNS, the terminal's width, or 80 if standard output is not a terminal.
[[nodiscard]] int help_width();

}  // namespace trireme::cli
