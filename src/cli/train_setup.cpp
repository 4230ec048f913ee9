#include "cli/train_setup.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "cli/parsed.h"
#include "cli/train_model.h"
#include "trireme/error.h"

namespace trireme::cli {

NamedModel name_model(const TrainOptions& options) {
  NamedModel named = parsed("--model", options.settings.model, [&](const std::string& /*model*/) {
    return name_train_model(options.settings, options.resume);
  });
  const bool length_given = std::ranges::find(options.given, "length") != options.given.end();
  if (length_given && !std::holds_alternative<ModelConfig>(named.config)) {
    throw Error(ErrorKind::Usage, fmt::format("{} has no sequences that could have a length; leave "
                                              "out --length",
                                              name_of(named.config)));
  }
  return named;
}

/// Field by field: GCC 12 destroys members twice when one in the middle of a braced list throws.
train::TrainerOptions trainer_options(const TrainSettings& settings, const AnyModelConfig& model,
                                      const Plan& plan) {
  train::TrainerOptions options;
  options.model = model;
  options.batch = {settings.batch, settings.length};
  options.rate = settings.learning_rate(model);
  options.training.optimizer = AdamW{.beta2 = 0.95, .decay = settings.decay};
  options.training.clip_limit =
      settings.clip > 0 ? settings.clip : std::numeric_limits<double>::infinity();
  options.training.independent_updates = table_of(plan).weights == WeightVersions::Newest;
  require(!options.training.independent_updates || settings.clip == 0,
          fmt::format("the schedule {} updates each stage as soon as it can, so that gradients "
                      "cannot be clipped by the norm of all; use --clip 0, or another schedule",
                      plan.schedule));
  options.training.no_decay = {".bias"};
  options.training.master_weights = settings.master == "f32";
  if (dtype_of(model) == DType::F16) {
    options.training.loss_scaling.emplace().first = settings.loss_scale;
  }
  options.plan = plan;
  options.seed = settings.seed;
  return options;
}

train::LoadedCheckpoint open_checkpoint(const TrainOptions& options) {
  auto loaded = train::load_latest(options.resume + "/checkpoints");
  if (!loaded) {
    throw Error(ErrorKind::Input,
                fmt::format("{} has no checkpoint to resume from", options.resume));
  }
  const std::int64_t step = loaded->checkpoint.info.step;
  if (step >= options.settings.steps && options.export_folder.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("--resume: this run has its {} steps already; give more, such as "
                            "--steps {}",
                            step, 2 * step));
  }
  return std::move(*loaded);
}

}  // namespace trireme::cli
