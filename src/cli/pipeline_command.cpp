// `trireme pipeline`: one pipeline schedule as a timeline, or all of them compared.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "command_line/files.h"
#include "command_line/terminal.h"
#include "report/draw/pipeline_svg.h"
#include "report/pipeline_json.h"
#include "report/pipeline_text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/pipeline_report.h"

namespace trireme::cli {
namespace {

struct Options {
  std::string schedule = "1f1b";
  std::string file;
  PipelineOptions size;
  PipelineDurations durations;
  bool chunks_given = false;
  bool compare = false;
  bool json = false;
  bool text = false;
  std::string svg;
  std::string trace;
};

std::string schedule_names() {
  std::string names;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    names += (names.empty() ? "" : " ") + std::string(schedule.name);
  }
  return names;
}

simulate::PipelineReport report_from_catalog(const Options& options) {
  const PipelineSchedule schedule =
      parsed("--schedule", options.schedule,
             [](const std::string& name) { return find_pipeline_schedule(name); });
  if (options.chunks_given && !schedule.has_chunks) {
    throw Error(ErrorKind::Usage,
                fmt::format("--chunks: {} has a fixed number; use interleaved", schedule.name));
  }
  if (const std::string unfit = find_unfit(schedule, options.size); !unfit.empty()) {
    throw Error(ErrorKind::Usage, fmt::format("--stages: {}", unfit));
  }
  return simulate::make_pipeline_report(schedule, options.size, options.durations);
}

simulate::PipelineReport make_report(const Options& options) {
  if (options.file.empty()) {
    return report_from_catalog(options);
  }
  return simulate::make_pipeline_report(
      parsed(options.file, read_file(options.file), parse_pipeline), options.durations);
}

void write_files(const Options& options, const simulate::PipelineReport& report) {
  if (options.svg.empty() && options.trace.empty()) {
    return;
  }
  if (!report.problems.empty()) {
    throw Error(ErrorKind::Input, fmt::format("{}: an invalid table has no timeline: {}",
                                              options.file, report.problems.front()));
  }
  if (!options.svg.empty()) {
    write_and_report(options.svg, report::pipeline_svg(report));
  }
  if (!options.trace.empty()) {
    write_and_report(options.trace, to_chrome_json(simulate::pipeline_trace(report)));
  }
}

void run_pipeline(const Options& options, Outcome& outcome) {
  const simulate::PipelineReport report = make_report(options);
  write_files(options, report);
  std::cout << (options.text   ? to_text(report.table)
                : options.json ? report::pipeline_json(report)
                               : report::pipeline_text(report, standard_output()));
  outcome.exit_code = report.problems.empty() ? 0 : 1;
}

void run_comparison(const Options& options) {
  const simulate::PipelineComparison comparison =
      simulate::compare_pipelines(options.size, options.durations);
  if (!options.svg.empty()) {
    write_and_report(options.svg, report::pipelines_svg(comparison));
  }
  std::cout << (options.json
                    ? report::pipeline_comparison_json(comparison)
                    : report::pipeline_comparison_text(comparison, standard_output().color));
}

void add_what_options(Command& command, Options& o) {
  auto* file = command.add_option("--file", o.file, "show the table in this file instead");
  command.add_option("-s,--schedule", o.schedule, "one of: " + schedule_names())->excludes(file);
  command
      .add_option("-n,--stages", o.size.ranks, "number of ranks that the model is partitioned over",
                  integer_in(1, kMaxPipelineRanks))
      ->excludes(file);
  command
      .add_option("--microbatches", o.size.microbatches, "number of micro-batches of the batch",
                  integer_in(1, kMaxMicrobatches))
      ->excludes(file);
  command
      .add_option("-k,--chunks", o.size.chunks, "stages on each rank, for interleaved",
                  integer_in(1, 64))
      ->excludes(file);
}

void add_duration_options(Command& command, Options& o) {
  for (const auto& [option, value, what] :
       {std::tuple{"--forward", &o.durations.forward, "time of a rank's forward"},
        std::tuple{"--backward-input", &o.durations.backward_input,
                   "time of the backward for the stage before"},
        std::tuple{"--backward-weight", &o.durations.backward_weight,
                   "time of the gradient of the weights"},
        std::tuple{"--update", &o.durations.update, "time of an update of the weights"},
        std::tuple{"--message", &o.durations.message, "time of a message between ranks"}}) {
    command.add_option(option, *value, what, number_in(0.0, 1e9));
  }
}

void add_output_options(Command& command, Options& o) {
  auto* json = command.add_flag("--json", o.json, "one JSON object: facts, cost, and all tasks");
  command.add_flag("--text", o.text, "the .pipeline text, which --file reads back")->excludes(json);
  command.add_option("--svg", o.svg, "write a picture to this file");
  command.add_option("--trace", o.trace, "write the timeline to this file, for Perfetto");
  auto* compare = command.add_flag("--compare", o.compare, "all schedules side by side instead");
  for (const char* other : {"--file", "--schedule", "--text", "--trace"}) {
    compare->excludes(command.get_option(other));
  }
}

}  // namespace

void add_pipeline_command(Command& app, Outcome& outcome) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand(
      "pipeline", "Show a pipeline schedule as a timeline, or compare the schedules");
  add_what_options(*command, *options);
  add_duration_options(*command, *options);
  add_output_options(*command, *options);
  command->callback([options, command, &outcome] {
    options->chunks_given = command->is_given("--chunks");
    options->compare ? run_comparison(*options) : run_pipeline(*options, outcome);
  });
}

}  // namespace trireme::cli
