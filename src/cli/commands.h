// The subcommands of `trireme`. Each function adds one to the application; it runs when the command line names it.
#pragma once

#include "command_line/command_line.h"

namespace trireme::cli {

/// The exit code of the command: 0, 1 if the schedule, table or result it checked is wrong, or 128 and the signal that
/// stopped it. Errors are thrown instead.
struct Outcome {
  int exit_code = 0;
};

void add_bench_command(Command& app, Outcome& outcome);
void add_calibrate_command(Command& app);
void add_cluster_command(Command& app);
void add_devices_command(Command& app);
void add_estimate_command(Command& app);
void add_evaluate_command(Command& app);
void add_generate_command(Command& app, Outcome& outcome);
void add_pipeline_command(Command& app, Outcome& outcome);
/// `trireme help [COMMAND…]`.
void add_help_command(Command& app);
void add_plan_command(Command& app, Outcome& outcome);
/// A subcommand of `plan`.
void add_plan_show_command(Command& plan);
void add_probe_command(Command& app);
void add_ps_command(Command& app, Outcome& outcome);
void add_repartition_command(Command& app, Outcome& outcome);
void add_report_command(Command& app);
void add_schedule_command(Command& app, Outcome& outcome);
void add_simulate_command(Command& app);
void add_straggler_command(Command& app);
void add_tokenize_command(Command& app, Outcome& outcome);
void add_tour_command(Command& app);
void add_train_command(Command& app, Outcome& outcome);
void add_validate_command(Command& app);

}  // namespace trireme::cli
