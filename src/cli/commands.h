// The subcommands of `trireme`. Each function adds one to the application; CLI11 invokes it when the command line names
// it.
#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// The exit code of the command: 0, 1 if the schedule, table or result it checked is wrong, or 128 and the signal that
/// stopped it. Errors are thrown instead.
struct Outcome {
  int exit_code = 0;
};

void add_bench_command(CLI::App& app, Outcome& outcome);
void add_calibrate_command(CLI::App& app);
void add_cluster_command(CLI::App& app);
void add_estimate_command(CLI::App& app);
void add_pipeline_command(CLI::App& app, Outcome& outcome);
void add_plan_command(CLI::App& app, Outcome& outcome);
/// A subcommand of `plan`.
void add_plan_show_command(CLI::App& plan);
void add_probe_command(CLI::App& app);
void add_ps_command(CLI::App& app, Outcome& outcome);
void add_schedule_command(CLI::App& app, Outcome& outcome);
void add_simulate_command(CLI::App& app);
void add_straggler_command(CLI::App& app);
void add_tour_command(CLI::App& app);
void add_train_command(CLI::App& app, Outcome& outcome);
void add_validate_command(CLI::App& app);

}  // namespace trireme::cli
