// Parses what the user typed. Used by one thread.
#pragma once

#include <string>

#include "command_line/command_line.h"

namespace trireme::cli {

/// Runs the callback of the command that the arguments name, and returns "". If they ask for help or the version, returns
/// that instead, in `width` columns. Throws Error(Usage) if they are wrong, with the option and the nearest name, and
/// whatever the callback throws.
[[nodiscard]] std::string parse(const Command& program, int argc, const char* const* argv,
                                int width);

}  // namespace trireme::cli
