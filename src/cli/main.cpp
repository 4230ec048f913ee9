#include "cli/run_cli.h"
#include "command_line/startup_signals.h"

int main(int argc, char** argv) {
  trireme::cli::restore_startup_signals();
  return trireme::cli::run_cli(argc, argv);
}
