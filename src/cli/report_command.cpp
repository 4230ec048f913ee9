// `trireme report`: runs as one HTML page.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/files.h"
#include "report/page/page.h"
#include "trireme/message.h"
#include "trireme/run_record.h"

namespace trireme::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  trireme report runs/gpt-mini-001                     into runs/gpt-mini-001/report.html\n"
    "  trireme report runs/gpt-mini-001 runs/gpt-mini-002   both side by side, in report.html\n"
    "  trireme report runs/gpt-mini-001 -o page.html\n"
    "\n"
    "The page needs nothing else: no network, no other files. A run in progress can be reported\n"
    "too; to watch it, use trireme train --watch PORT.";

struct Options {
  std::vector<std::string> folders;
  std::string output;
};

void run_report(const Options& options) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : options.folders) {
    runs.push_back(read_run(folder));
  }
  const std::string beside = runs.size() == 1 ? options.folders.front() + "/" : "";
  write_and_report(options.output.empty() ? beside + "report.html" : options.output,
                   report::run_page(runs));
}

}  // namespace

void add_report_command(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand("report", "Show training runs as one HTML page");
  command->add_option("runs", options->folders, "folders of runs, side by side if several")
      ->required();
  command->add_option("-o,--output", options->output,
                      "the page (default: report.html in the run's folder, or here for several)");
  command->footer(kExamples);
  command->callback([options] { run_report(*options); });
}

}  // namespace trireme::cli
