// Parses the command line. Used by one thread.
#pragma once

#include <string>

#include "command_line/command_line.h"

namespace trireme::cli {

/// Runs the callback of the command that the arguments name, and returns "". If they request help or the version,
/// returns that instead, in `width` columns. Throws Error(Usage) on invalid arguments, with the option and the nearest
/// name; propagates the callback's exceptions.
[[nodiscard]] std::string parse(const Command& program, int argc, const char* const* argv,
                                int width);

}  // namespace trireme::cli
