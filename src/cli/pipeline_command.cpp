// `trireme pipeline`: one pipeline schedule as a timeline, or all of them compared.
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "command_line/terminal.h"
#include "report/draw/pipeline_svg.h"
#include "report/pipeline_json.h"
#include "report/pipeline_text.h"
#include "trireme/error.h"
#include "trireme/message.h"
#include "trireme/pipeline_report.h"

namespace trireme::cli {
namespace {

struct PipelineArguments {
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

simulate::PipelineReport report_from_catalog(const PipelineArguments& args) {
  const PipelineSchedule schedule =
      parsed("--schedule", args.schedule,
             [](const std::string& name) { return find_pipeline_schedule(name); });
  if (args.chunks_given && !schedule.has_chunks) {
    throw Error(ErrorKind::Usage,
                fmt::format("--chunks: {} has a fixed number; use interleaved", schedule.name));
  }
  throw_first(problems(schedule, args.size), ErrorKind::Usage, "--stages");
  return simulate::make_pipeline_report(schedule, args.size, args.durations);
}

simulate::PipelineReport make_report(const PipelineArguments& args) {
  if (args.file.empty()) {
    return report_from_catalog(args);
  }
  return simulate::make_pipeline_report(parsed_file("--file", args.file, parse_pipeline),
                                        args.durations);
}

void write_files(const PipelineArguments& args, const simulate::PipelineReport& report) {
  if (args.svg.empty() && args.trace.empty()) {
    return;
  }
  if (!report.problems.empty()) {
    throw Error(ErrorKind::Input, fmt::format("{}: an invalid table has no timeline: {}", args.file,
                                              report.problems.front()));
  }
  if (!args.svg.empty()) {
    write_and_report(args.svg, report::pipeline_svg(report));
  }
  if (!args.trace.empty()) {
    write_and_report(args.trace, to_chrome_json(simulate::pipeline_trace(report)));
  }
}

void run_pipeline(const PipelineArguments& args, Outcome& outcome) {
  const simulate::PipelineReport report = make_report(args);
  write_files(args, report);
  std::cout << (args.text   ? to_text(report.table)
                : args.json ? report::pipeline_json(report)
                            : report::pipeline_text(report, standard_output()));
  outcome.exit_code = report.problems.empty() ? 0 : 1;
}

void run_comparison(const PipelineArguments& args) {
  const simulate::PipelineComparison comparison =
      simulate::compare_pipelines(args.size, args.durations);
  if (!args.svg.empty()) {
    write_and_report(args.svg, report::pipelines_svg(comparison));
  }
  std::cout << (args.json ? report::pipeline_comparison_json(comparison)
                          : report::pipeline_comparison_text(comparison, standard_output().color));
}

void add_what_options(Command& command, PipelineArguments& args) {
  auto* file = command.add_option("--file", args.file, "show the table in this file instead");
  command.add_option("-s,--schedule", args.schedule, "one of: " + schedule_names())->excludes(file);
  command
      .add_option("-n,--stages", args.size.ranks,
                  "number of ranks that the model is partitioned over",
                  integer_in(1, kMaxPipelineRanks))
      ->excludes(file);
  command
      .add_option("--microbatches", args.size.microbatches, "micro-batches per batch",
                  integer_in(1, kMaxMicrobatches))
      ->excludes(file);
  command
      .add_option("-k,--chunks", args.size.chunks, "stages on each rank, for interleaved",
                  integer_in(1, 64))
      ->excludes(file);
}

void add_duration_options(Command& command, PipelineArguments& args) {
  for (const auto& [option, value, what] :
       {std::tuple{"--forward", &args.durations.forward, "time of a forward pass on one rank"},
        std::tuple{"--backward-input", &args.durations.backward_input,
                   "time of a backward pass for activations"},
        std::tuple{"--backward-weight", &args.durations.backward_weight,
                   "time of a backward pass for weights"},
        std::tuple{"--update", &args.durations.update, "time of a weight update"},
        std::tuple{"--message", &args.durations.message, "time of a message between ranks"}}) {
    command.add_option(option, *value, what, number_in(0.0, 1e9));
  }
}

void add_output_options(Command& command, PipelineArguments& args) {
  auto* json = command.add_flag("--json", args.json, "one JSON object: facts, cost, and all tasks");
  command.add_flag("--text", args.text, "the .pipeline text, which --file reads back")
      ->excludes(json);
  command.add_option("--svg", args.svg, "write a picture to this file", writable_path);
  command.add_option("--trace", args.trace, "write the timeline to this file, for Perfetto",
                     writable_path);
  auto* compare = command.add_flag("--compare", args.compare, "compare all schedules instead");
  for (const char* other : {"--file", "--schedule", "--text", "--trace"}) {
    compare->excludes(command.get_option(other));
  }
}

}  // namespace

void add_pipeline_command(Command& app, Outcome& outcome) {
  auto args = std::make_shared<PipelineArguments>();
  Command* command = app.add_subcommand(
      "pipeline", "Show a pipeline schedule as a timeline, or compare the schedules");
  add_what_options(*command, *args);
  add_duration_options(*command, *args);
  add_output_options(*command, *args);
  command->callback([args, command, &outcome] {
    const Patience patience;
    args->chunks_given = command->is_given("--chunks");
    args->compare ? run_comparison(*args) : run_pipeline(*args, outcome);
  });
}

}  // namespace trireme::cli
