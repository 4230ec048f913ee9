// The `trireme` program: parses the command line, runs one subcommand, and turns errors into one line and an exit code.
#pragma once

namespace trireme::cli {

/// Returns the exit code; does not throw.
int run_cli(int argc, char** argv);

}  // namespace trireme::cli
