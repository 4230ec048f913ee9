// `trireme train`: trains a model from scratch or from a checkpoint.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/devices_named.h"
#include "cli/inference_options.h"
#include "cli/measure_host.h"
#include "cli/train_display.h"
#include "cli/train_options.h"
#include "command_line/host_file.h"
#include "command_line/interrupt.h"
#include "command_line/patience.h"
#include "report/page/page.h"
#include "report/plan_choice_text.h"
#include "trireme/cores.h"
#include "trireme/error.h"
#include "trireme/host_probe.h"
#include "trireme/message.h"
#include "trireme/page_server.h"
#include "trireme/ps_chaos.h"
#include "trireme/run_record.h"
#include "trireme/shared_number.h"

namespace trireme::cli {
namespace {

constexpr StopReply kSavesCheckpoint{
    .text = "stopping after this step; saving a checkpoint (again: stops immediately)"};

/// An environment variable.
std::optional<std::string> variable(const std::string& name) {
  // Called before any threads start.
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// Joins the ranks started by a launcher. Errors name the command-line options.
World join_ranks(const TrainOptions& given) {
  WorldOptions options;
  options.deadline = {10.0};  // long enough not to mistake a busy rank for a hung one
  options.encrypt = given.run.settings.encrypt;
  options.bind = given.bind.value_or(options.bind);
  try {
    return join(variable, options);
  } catch (const Error& error) {
    std::string text = error.what();
    for (const std::string name : {"bind", "encrypt"}) {
      const std::string field = "WorldOptions::" + name;
      for (std::size_t at = text.find(field); at != std::string::npos; at = text.find(field)) {
        text.replace(at, field.size(), "--" + name);
      }
    }
    throw Error(error.kind(), text);
  }
}

/// The measured costs of this host, if known.
std::optional<HostCosts> find_host_costs() {
  const std::optional<Cluster> host = find_host_file();
  return host ? host->host : std::nullopt;
}

/// The known costs if they suffice to choose a plan; otherwise measures them quickly. Forks: call it before creating a
/// thread.
HostCosts measured_host_costs(const std::optional<HostCosts>& known, TrainDisplay& display) {
  if (known && known->compute && known->cores == usable_cores()) {
    return *known;
  }
  display.note("measuring this machine; run 'trireme probe' once for better accuracy");
  return measure::host_costs(measure_host({.ranks = usable_cores(), .quick = true}));
}

void require_launched(const TrainOptions& given) {
  const bool encrypts = std::ranges::find(given.given, "encrypt") != given.given.end();
  require(given.launched.size > 1 || (!given.bind && !encrypts),
          "--bind and --encrypt are for ranks on several hosts, which another program starts: "
          "mpirun, srun, torchrun, or you yourself with TRIREME_RANK, TRIREME_SIZE, TRIREME_STORE "
          "and TRIREME_SECRET");
}

/// The complete options, the same on all ranks. Only rank 0 throws if they are invalid; the others return nullopt.
std::optional<RunOptions> complete(TrainOptions given, TrainDisplay& display) {
  try {
    complete_settings(given);
    require_launched(given);
    if (!given.run.servers.address.empty()) {
      given.run.servers.secret = variable(ps::kSecretVariable).value_or("");
      require(!given.run.servers.secret.empty(),
              fmt::format("--ps: set {} to the secret of the servers", ps::kSecretVariable));
    }
    given.run.make_device = devices_of(given.run.settings);
    given.run.host = find_host_costs();
    if (chooses_plan(given)) {
      given.run.host = measured_host_costs(given.run.host, display);
      const PlanChoice choice = choose_plan(given, usable_cores());
      display.note(report::plan_choice_text(choice));
      given.run.plan = choice.best().plan;
    } else {
      given.run.plan = requested_plan(given);
    }
    require_valid(given.run);
    return given.run;
  } catch (const Error&) {
    if (given.launched.rank == 0) {
      throw;
    }
    return std::nullopt;
  }
}

RunObserver observer_of(TrainDisplay& display, SharedNumber& has_stepped) {
  return {.begin = [&](const RunFacts& facts) { display.begin(facts); },
          .step =
              [&](const RunFacts& facts, const StepReport& report) {
                has_stepped.set(1);
                display.step(facts, report);
              },
          .end = [&](const RunFacts& facts, const RunSummary& end) { display.end(facts, end); },
          .warning = [](const std::string& text) { fmt::print(stderr, "trireme: {}\n", text); }};
}

/// Reads it once, for all ranks that are forked from this process.
void read_data_from_standard_input(RunOptions& options) {
  std::vector<std::string> names = options.settings.data;
  names.insert(names.end(), options.settings.validation_data.begin(),
               options.settings.validation_data.end());
  if (const std::shared_ptr<const std::string> text = read_standard_input(names)) {
    options.open_data = [text, resume = options.resume](const TrainSettings& settings,
                                                        const AnyModelConfig& model) {
      return open_train_data(settings, model, {.standard_input = text, .run_folder = resume});
    };
  }
}

/// Listens for the live report, if it is requested; rank 0 has it.
std::unique_ptr<PageServer> open_live_report(const TrainOptions& given) {
  if (!given.watch || given.launched.rank != 0) {
    return nullptr;
  }
  auto server = parsed("--watch", std::to_string(*given.watch), [](const std::string& port) {
    return std::make_unique<PageServer>(std::stoi(port));
  });
  fmt::print(stderr, "trireme: watch the run at {}\n", server->address());
  return server;
}

void train(TrainingRun& run, PageServer* live_report) {
  if (live_report != nullptr && run.rank() == 0) {
    live_report->start([folder = run.run_folder()] {
      return report::run_page(std::array{read_run(folder)}, {.live = true});
    });
  }
  run.train();
}

void run(TrainOptions& given, Outcome& outcome) {
  given.launched = find_launched_rank(variable);
  const std::unique_ptr<TrainDisplay> display = make_train_display(
      {.json = given.json, .program = variable("TRIREME_CALLED_AS").value_or("trireme")});
  constexpr unsigned kLongestSilence = 30;
  SharedNumber has_stepped;  // from then on, the display shows progress
  std::optional<Patience> patience;
  if (given.launched.rank == 0) {
    patience.emplace(PatienceOptions{.seconds = kLongestSilence, .until = &has_stepped});
  }
  SharedNumber interrupted;
  SharedNumber has_begun;  // from then on, there is a run to save
  const StopReply nothing_to_save{.text = "stopping: the run has not begun, nothing to save",
                                  .at_once = true,
                                  .until = &has_begun,
                                  .next = &kSavesCheckpoint};
  const InterruptGuard guard(interrupted, nothing_to_save);
  std::optional<RunOptions> options = complete(given, *display);
  if (!options) {
    return;
  }
  read_data_from_standard_input(*options);
  options->on_ready = [&] { has_begun.set(1); };
  options->observer = observer_of(*display, has_stepped);
  options->should_stop = [&] { return interrupted.get() != 0; };
  const std::unique_ptr<PageServer> live_report = open_live_report(given);
  const auto train_rank = [&](TrainingRun& run) { train(run, live_report.get()); };
  if (given.launched.size > 1) {
    World world = join_ranks(given);
    run_rank(*options, world, train_rank);
  } else {
    run_ranks(*options, train_rank);
  }
  if (interrupted.get() != 0) {
    outcome.exit_code = exit_code_of(interrupted.get());
  }
}

}  // namespace

void add_train_command(Command& app, Outcome& outcome) {
  auto options = std::make_shared<TrainOptions>();
  Command* command = app.add_subcommand("train", "Train a model and show where the time went");
  add_train_options(command, *options);
  command->callback([options, command, &outcome] {
    for (const std::string& name : command->given()) {
      if (is_setting(name)) {
        options->given.push_back(name);
      }
    }
    run(*options, outcome);
  });
}

}  // namespace trireme::cli
