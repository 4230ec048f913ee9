// `trireme report`: runs as one HTML page.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "command_line/files.h"
#include "command_line/patience.h"
#include "report/page/page.h"
#include "trireme/message.h"
#include "trireme/run_record.h"

namespace trireme::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> folders;
  std::string output;
};

void run_report(const ReportArguments& args) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : args.folders) {
    runs.push_back(read_run(folder));
  }
  const std::string beside = runs.size() == 1 ? args.folders.front() + "/" : "";
  write_and_report(args.output.empty() ? beside + "report.html" : args.output,
                   report::run_page(runs));
}

}  // namespace

void add_report_command(Command& app) {
  auto args = std::make_shared<ReportArguments>();
  Command* command = app.add_subcommand("report", "Show training runs as one HTML page");
  command->add_option("runs", args->folders, "folders of runs, side by side if several")
      ->required();
  command->add_option("-o,--output", args->output,
                      "the page (default: report.html in the run's folder, or here for several)",
                      writable_path);
  command->callback([args] {
    const Patience patience;
    run_report(*args);
  });
}

}  // namespace trireme::cli
