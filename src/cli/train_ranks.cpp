#include "cli/train_ranks.h"

#include <cstdlib>

#include <fmt/format.h>

#include "cli/interrupt.h"
#include "cli/parsed.h"
#include "cli/train_data.h"
#include "cli/train_folder.h"
#include "cli/train_model.h"
#include "cli/train_run.h"
#include "cli/train_setup.h"
#include "trireme/comm.h"
#include "trireme/error.h"

namespace trireme::cli {
namespace {

WorldOptions world_options(const TrainOptions& given) {
  WorldOptions options;
  options.deadline = {10.0};  // a rank that computes for long is not a rank that hangs
  options.encrypt = given.encrypt;
  options.bind = given.bind.value_or(options.bind);
  return options;
}

/// As one of the ranks that others have started. What is wrong is said with the names that options have here.
World join_as_told(const TrainOptions& given) {
  try {
    return join(variable, world_options(given));
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

/// Options and what they compile to.
struct Prepared {
  TrainOptions options;
  std::shared_ptr<const train::CompiledTraining> compiled;
};

/// Finds, before there are ranks, what all of them would complain about, and compiles for all. Picks the name of the
/// run folder, which they could not agree on later.
Prepared prepare(TrainOptions options, const Plan& plan) {
  const NamedModel named = name_model(options);
  const TrainData data = open_train_data(options.settings, named.config);
  const TrainModel model =
      open_train_model(options.settings, named, data.vocabulary, !options.resume.empty());
  if (!options.resume.empty()) {
    (void)open_checkpoint(options);
  } else if (options.run_folder.empty()) {
    options.run_folder = free_run_folder(name_of(model.config));
  }
  auto compiled = std::make_shared<const train::CompiledTraining>(
      train::compile_training(trainer_options(options.settings, model.config, plan)));
  train::check_programs(*compiled);
  return {.options = std::move(options), .compiled = std::move(compiled)};
}

}  // namespace

std::optional<std::string> variable(const std::string& name) {
  // Before there are threads.
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void run_forked(const TrainOptions& given, const Plan& plan) {
  constexpr int kMostProcesses = 256;
  require(plan.mesh.devices() <= kMostProcesses,
          fmt::format("the mesh {} has {} devices; at most {} processes are started on one machine",
                      to_text(plan.mesh), plan.mesh.devices(), kMostProcesses));
  const Prepared prepared = prepare(given, plan);
  SharedNumber interrupted;
  SharedNumber refused;  // 1: what a rank says is an error of the caller's
  const InterruptGuard guard(interrupted);
  const auto body = [&](World& world) {
    try {
      run_rank(prepared.options, plan, prepared.compiled, &world, interrupted);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Input) {
        refused.set(1);
      }
      throw;
    }
  };
  if (launch(plan.mesh.devices(), body, world_options(prepared.options)) != 0) {
    throw Error(refused.get() != 0 ? ErrorKind::Input : ErrorKind::Peer,
                "a rank failed; its message stands above");
  }
}

void run_joined(const TrainOptions& options, const Plan& plan) {
  SharedNumber interrupted;
  World world = join_as_told(options);
  std::optional<Error> problem;
  Prepared prepared;
  try {
    prepared = prepare(options, plan);
  } catch (const Error& error) {
    problem = error;
  }
  const int teller = first_rank_with(world, problem.has_value());
  if (teller == world.size()) {
    run_rank(options, plan, prepared.compiled, &world, interrupted);
  } else if (teller == world.rank() && problem) {
    throw Error(*problem);
  }
}

}  // namespace trireme::cli
