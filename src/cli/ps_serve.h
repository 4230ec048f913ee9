// `trireme ps serve`, and helpers shared with the other parameter-server commands. One thread.
#pragma once

#include <string>

#include "cli/commands.h"

namespace trireme::cli {

/// Of the servers, from the environment. Call it before threads start. Throws Error(Usage).
[[nodiscard]] std::string ps_secret();
void add_ps_serve(Command& ps, Outcome& outcome);

}  // namespace trireme::cli
