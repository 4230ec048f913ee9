// The subcommands of `trireme`. Each function adds one to the application; CLI11 calls it back when
// it was asked for.
#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// What the command that ran wants the program to exit with: 0, or 1 if what it was asked to check
/// is wrong. Errors are thrown instead.
struct Outcome {
  int exit_code = 0;
};

void add_bench_command(CLI::App& app, Outcome& outcome);
void add_cluster_command(CLI::App& app);
void add_estimate_command(CLI::App& app);
void add_pipeline_command(CLI::App& app, Outcome& outcome);
void add_probe_command(CLI::App& app);
void add_schedule_command(CLI::App& app, Outcome& outcome);
void add_tour_command(CLI::App& app);
void add_train_command(CLI::App& app);

}  // namespace trireme::cli
