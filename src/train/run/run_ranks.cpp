#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "train/run/ranks.h"
#include "train/run/run_folder.h"
#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "trireme/launch.h"
#include "trireme/local_servers.h"
#include "trireme/message.h"
#include "trireme/shared_number.h"
#include "trireme/shell_word.h"
#include "trireme/sync.h"
#include "trireme/train.h"

namespace trireme {
namespace {

using train::CompiledTraining;

/// The options and their compiled form.
struct PreparedRun {
  RunOptions options;
  std::string model;  ///< its name
  std::shared_ptr<const CompiledTraining> compiled;
};

/// Detects errors common to all ranks before any rank starts, and compiles once for all.
PreparedRun prepare(RunOptions options, int rank = 0) {
  require_valid(options);
  const NamedModel named = train::find_model(options);
  const TrainData data =
      train::open_data(options, named.config, train::index_along_data(options.plan.mesh, rank));
  const bool resumes = train::has_checkpoint(options);
  const train::RunModel model =
      train::open_run_model(options.settings, named, data.vocabulary, resumes);
  if (resumes) {
    (void)train::open_checkpoint(options);
  }
  auto compiled = std::make_shared<const CompiledTraining>(train::compile_training(
      train::trainer_options(options.settings, model.config, options.plan)));
  train::check_programs(*compiled);
  return {.options = std::move(options),
          .model = name_of(model.config),
          .compiled = std::move(compiled)};
}

void run_prepared(const PreparedRun& prepared, World* world,
                  const std::function<void(TrainingRun& run)>& body) {
  try {
    TrainingRun run(prepared.options, world, prepared.compiled);
    body(run);
  } catch (const ReportedElsewhere&) {
    return;
  }
}

const std::string& folder_of(const RunOptions& options) {
  return options.resume.empty() ? options.run_folder : options.resume;
}

std::string resume_text(const std::string& folder) {
  return fmt::format("the run can be resumed with --resume {}", shell_word(folder));
}

/// What to do once the cause, such as a full disk, is gone.
std::string next_text(const TrainingRun& run, const RunOptions& options) {
  if (run.step() < options.settings.steps) {
    return resume_text(run.run_folder());
  }
  return fmt::format("the run is complete; --resume {} --steps 0 --export {} exports its model",
                     shell_word(run.run_folder()), shell_word(options.export_folder));
}

/// If the machine fails a run that has begun, the error says how to resume.
void run_alone(const RunOptions& options, const std::function<void(TrainingRun& run)>& body) {
  TrainingRun run(options);
  try {
    body(run);
  } catch (const Error& error) {
    const bool exports = !options.export_folder.empty();
    if (error.kind() != ErrorKind::System || (run.step() >= options.settings.steps && !exports)) {
      throw;
    }
    throw Error(ErrorKind::System, fmt::format("{}; {}", error.what(), next_text(run, options)));
  }
}

/// For ranks started by another program. If one of them fails, the others say how to resume, if they know the folder:
/// rank 0 chooses it if the options do not.
void run_launched(const PreparedRun& prepared, World& world,
                  const std::function<void(TrainingRun& run)>& body) {
  std::string folder;
  try {
    run_prepared(prepared, &world, [&](TrainingRun& run) {
      folder = run.run_folder();
      body(run);
    });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Peer || folder.empty()) {
      throw;
    }
    throw Error(ErrorKind::Peer, fmt::format("{}; {}", error.what(), resume_text(folder)));
  }
}

/// Refers to the error that a rank has reported. If the run has started with valid options, it can be resumed. Removes
/// the folder if it is still empty.
Error rank_failure(bool refused, const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove(folder, ignored);  // not if it has files
  const std::string text = "a rank failed; see its message above";
  if (refused) {
    return {ErrorKind::Input, text};
  }
  const bool begun = std::filesystem::exists(folder + "/settings.json");
  return {ErrorKind::Peer, begun ? fmt::format("{}; {}", text, resume_text(folder)) : text};
}

/// Parameter servers for a run that needs them and names none; nothing otherwise.
std::unique_ptr<ps::LocalServers> start_servers(RunOptions& options,
                                                ps::LocalServersOptions::Run run) {
  if (!uses_server(parse_sync(options.settings.sync)) || !options.servers.address.empty()) {
    return nullptr;
  }
  const int workers = options.plan.mesh.size("data");
  const int count = options.servers.count > 0 ? options.servers.count : workers;
  auto servers = std::make_unique<ps::LocalServers>(
      ps::LocalServersOptions{.servers = static_cast<std::size_t>(count),
                              .replicas = static_cast<std::size_t>(options.servers.replicas),
                              .lease = options.servers.lease,
                              .run = run});
  options.servers.address = servers->coordinator();
  options.servers.secret = servers->secret();
  return servers;
}

/// With parameter servers a run continues without workers that die.
AfterDeath after_death(const RunOptions& options) {
  return uses_server(parse_sync(options.settings.sync)) ? AfterDeath::OthersContinue
                                                        : AfterDeath::EndOthers;
}

/// The others have declared this rank dead, and continue without it.
bool is_given_up(const Error& error, Rank rank) {
  const auto* failure = dynamic_cast<const CommError*>(&error);
  return failure != nullptr && failure->fault() == CommFault::Stopped &&
         failure->culprits() == std::vector<Rank>{rank};
}

void run_forked(PreparedRun prepared, const std::function<void(TrainingRun& run)>& body) {
  const auto servers = start_servers(prepared.options, ps::LocalServersOptions::Run::Processes);
  const AfterDeath after = after_death(prepared.options);
  SharedNumber refused;  // 1: a rank reported a usage or input error
  const auto rank_body = [&](World& world) {
    try {
      run_prepared(prepared, &world, body);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input) {
        refused.set(1);
      }
      if (after == AfterDeath::OthersContinue && is_given_up(error, world.rank())) {
        return;
      }
      throw;
    }
  };
  if (launch(prepared.options.plan.mesh.devices(), rank_body, train::rank_world_options(), after) !=
      0) {
    throw rank_failure(refused.get() != 0, folder_of(prepared.options));
  }
}

void run_in_threads(PreparedRun prepared, const std::function<void(TrainingRun& run)>& body) {
  const auto servers = start_servers(prepared.options, ps::LocalServersOptions::Run::Threads);
  run_threads(
      prepared.options.plan.mesh.devices(),
      [&](World& world) { run_prepared(prepared, &world, body); }, train::rank_world_options());
}

}  // namespace

void run_ranks(RunOptions options, const std::function<void(TrainingRun& run)>& body) {
  constexpr int kMaxProcesses = 256;
  const Mesh& mesh = options.plan.mesh;
  require(mesh.devices() <= kMaxProcesses,
          fmt::format("the mesh {} has {} devices; at most {} processes are started on one machine",
                      to_text(mesh), mesh.devices(), kMaxProcesses));
  if (mesh.devices() == 1) {
    run_alone(options, body);
    return;
  }
  PreparedRun prepared = prepare(std::move(options));
  if (folder_of(prepared.options).empty()) {
    prepared.options.run_folder = train::new_run_folder(prepared.model);
  }
  if (prepared.options.rank_kind == RankKind::Threads ||
      needs_threads(parse_sync(prepared.options.settings.sync))) {
    run_in_threads(std::move(prepared), body);
  } else {
    run_forked(std::move(prepared), body);
  }
}

void run_rank(const RunOptions& options, World& world,
              const std::function<void(TrainingRun& run)>& body) {
  std::optional<Error> problem;
  PreparedRun prepared;
  try {
    require(!uses_server(parse_sync(options.settings.sync)) || !options.servers.address.empty(),
            fmt::format("--sync {}: ranks that another program starts need servers that are "
                        "running; start them with trireme ps serve and give --ps HOST:PORT",
                        options.settings.sync));
    prepared = prepare(options, world.rank());
  } catch (const Error& error) {
    problem = error;
  }
  const int reporter = train::first_rank_with(world, problem.has_value());
  if (reporter == world.size()) {
    prepared.options.run_folder = options.run_folder;
    run_launched(prepared, world, body);
  } else if (reporter == world.rank() && problem) {
    throw Error(*problem);
  }
}

}  // namespace trireme
