#include "cli/run_cli.h"

int main(int argc, char** argv) {
  return trireme::cli::run_cli(argc, argv);
}
