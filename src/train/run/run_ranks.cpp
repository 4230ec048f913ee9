#include <memory>
#include <optional>

#include <fmt/format.h>

#include "train/run/ranks.h"
#include "train/run/run_folder.h"
#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "trireme/message.h"
#include "trireme/shared_number.h"
#include "trireme/sync.h"
#include "trireme/train.h"

namespace trireme {
namespace {

using train::CompiledTraining;

/// The options and their compiled form.
struct Prepared {
  RunOptions options;
  std::shared_ptr<const CompiledTraining> compiled;
};

/// Detects errors common to all ranks before any rank starts, and compiles once for all. Chooses the run folder, which
/// the ranks could not agree on later.
Prepared prepare(RunOptions options) {
  require_valid(options);
  const NamedModel named = train::find_model(options);
  const TrainData data = train::open_data(options, named.config);
  const train::RunModel model =
      train::open_run_model(options.settings, named, data.vocabulary, !options.resume.empty());
  if (!options.resume.empty()) {
    (void)train::open_checkpoint(options);
  } else if (options.run_folder.empty()) {
    options.run_folder = train::free_run_folder(name_of(model.config));
  }
  auto compiled = std::make_shared<const CompiledTraining>(train::compile_training(
      train::trainer_options(options.settings, model.config, options.plan)));
  train::check_programs(*compiled);
  return {.options = std::move(options), .compiled = std::move(compiled)};
}

void run_prepared(const Prepared& prepared, World* world,
                  const std::function<void(TrainingRun& run)>& body) {
  try {
    TrainingRun run(prepared.options, world, prepared.compiled);
    body(run);
  } catch (const ReportedElsewhere&) {
    return;
  }
}

WorldOptions world_options() {
  WorldOptions options;
  options.deadline = {10.0};  // long enough not to mistake a busy rank for a hung one
  return options;
}

void run_forked(const Prepared& prepared, const std::function<void(TrainingRun& run)>& body) {
  SharedNumber refused;  // 1: a rank reported a usage or input error
  const auto rank_body = [&](World& world) {
    try {
      run_prepared(prepared, &world, body);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input) {
        refused.set(1);
      }
      throw;
    }
  };
  if (launch(prepared.options.plan.mesh.devices(), rank_body, world_options()) != 0) {
    throw Error(refused.get() != 0 ? ErrorKind::Input : ErrorKind::Peer,
                "a rank failed; see its message above");
  }
}

void run_in_threads(const Prepared& prepared, const std::function<void(TrainingRun& run)>& body) {
  run_threads(
      prepared.options.plan.mesh.devices(),
      [&](World& world) { run_prepared(prepared, &world, body); }, world_options());
}

}  // namespace

void run_ranks(RunOptions options, const std::function<void(TrainingRun& run)>& body) {
  constexpr int kMaxProcesses = 256;
  const Mesh& mesh = options.plan.mesh;
  require(mesh.devices() <= kMaxProcesses,
          fmt::format("the mesh {} has {} devices; at most {} processes are started on one machine",
                      to_text(mesh), mesh.devices(), kMaxProcesses));
  if (mesh.devices() == 1) {
    TrainingRun run(std::move(options));
    body(run);
  } else if (const Prepared prepared = prepare(std::move(options));
             prepared.options.rank_kind == RankKind::Threads ||
             needs_threads(parse_sync(prepared.options.settings.sync))) {
    run_in_threads(prepared, body);
  } else {
    run_forked(prepared, body);
  }
}

void run_rank(const RunOptions& options, World& world,
              const std::function<void(TrainingRun& run)>& body) {
  std::optional<Error> problem;
  Prepared prepared;
  try {
    prepared = prepare(options);
  } catch (const Error& error) {
    problem = error;
  }
  const int reporter = train::first_rank_with(world, problem.has_value());
  if (reporter == world.size()) {
    prepared.options.run_folder = options.run_folder;
    run_prepared(prepared, &world, body);
  } else if (reporter == world.rank() && problem) {
    throw Error(*problem);
  }
}

}  // namespace trireme
