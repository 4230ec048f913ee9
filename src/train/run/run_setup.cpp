#include "train/run/run_setup.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/rank_data.h"
#include "train/run/ranks.h"
#include "train/run/run_model.h"
#include "trireme/error.h"
#include "trireme/message.h"

namespace trireme::train {

namespace {

double width_of(const ModelConfig& config) {
  return static_cast<double>(config.width);
}
double width_of(const MlpConfig& config) {
  return static_cast<double>(std::ranges::max(config.hidden));
}
double width_of(const ConvNetConfig& config) {
  return static_cast<double>(config.filters);
}

/// Small models tolerate, and need, a larger learning rate.
struct DefaultPeak {
  double width;

  [[nodiscard]] double adaptive() const { return std::clamp(0.3 / width, 2e-4, 3e-3); }
  double operator()(const AdamW&) const { return adaptive(); }
  double operator()(const Muon&) const { return adaptive(); }
  /// Every element moves by the whole rate.
  double operator()(const Lion&) const { return adaptive() / 5; }
  double operator()(const Sgd&) const { return 0.1; }
  double operator()(const Momentum&) const { return 0.03; }
  double operator()(const Adagrad&) const { return 0.01; }
};

}  // namespace

NamedModel find_model(const RunOptions& options) {
  if (options.model) {
    NamedModel described;
    described.config = *options.model;
    return described;
  }
  return parsed("--model", options.settings.model, [&](const std::string& /*model*/) {
    return name_train_model(options.settings, options.resume);
  });
}

namespace {

/// For a resumed run.
void require_files(std::string_view option, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    require(
        file == "-" || std::filesystem::exists(file),
        fmt::format("{0}: '{1}', which this run uses, does not exist; if it has moved, give its "
                    "new place with {0}",
                    option, file));
  }
}

}  // namespace

TrainData open_data(const RunOptions& options, const AnyModelConfig& model, int rank) {
  if (options.open_data) {
    return options.open_data(options.settings, model);
  }
  const TrainSettings settings = with_rank_files(options.settings, rank);
  if (!options.resume.empty()) {
    require_files("--data", settings.data);
    require_files("--validation-data", settings.validation_data);
  }
  return open_train_data(settings, model, {.run_folder = options.resume});
}

LearningRate default_learning_rate(const TrainSettings& settings, const AnyModelConfig& model) {
  const double width = std::visit([](const auto& config) { return width_of(config); }, model);
  const double peak = std::visit(DefaultPeak{width}, parse_optimizer(settings.optimizer));
  return {.shape = Decay::Cosine,
          .peak = peak,
          .warmup = std::max<std::int64_t>(1, std::min<std::int64_t>(50, settings.steps / 10)),
          .steps = std::max<std::int64_t>(settings.steps, 1),
          .decay = 0,
          .least = peak / 10};
}

LearningRate learning_rate(const TrainSettings& settings, const AnyModelConfig& model) {
  const LearningRate otherwise = default_learning_rate(settings, model);
  return settings.rate.empty() ? otherwise : parse_learning_rate(settings.rate, otherwise);
}

std::string smaller_rate(const TrainSettings& settings, const AnyModelConfig& model, double rate) {
  LearningRate smaller = default_learning_rate(settings, model);
  if (rate <= smaller.peak) {
    smaller.peak = rate / 3;
  }
  smaller.peak = std::stod(fmt::format("{:.2g}", smaller.peak));
  smaller.least = std::stod(fmt::format("{:.2g}", smaller.peak / 10));
  return to_text(smaller);
}

namespace {

/// A balance loss for each micro-batch is a mean over equal parts.
void require_equal_microbatches(const AnyModelConfig& model, std::int64_t batch, const Plan& plan) {
  const auto* language = std::get_if<ModelConfig>(&model);
  require(language == nullptr || language->balance_groups != 0 || batch % plan.microbatches == 0,
          fmt::format("--experts …,per=microbatch: {} sequences do not divide evenly into {} "
                      "micro-batches; use a multiple for --batch, or per=batch",
                      batch, plan.microbatches));
}

}  // namespace

/// Field by field: GCC 12 destroys members twice when one in the middle of a braced list throws.
TrainerOptions trainer_options(const TrainSettings& settings, const AnyModelConfig& model,
                               const Plan& plan) {
  const SyncSpec sync = parse_sync(settings.sync);
  TrainerOptions options;
  options.workers = worker_count(plan, sync);
  options.batch = {settings.batch / options.workers, settings.length};
  options.model = model;
  require_equal_microbatches(model, options.batch.sequences, plan);
  options.rate = learning_rate(settings, model);
  options.training.optimizer = parse_optimizer(settings.optimizer);
  options.training.clip_limit =
      settings.clip > 0 ? settings.clip : std::numeric_limits<double>::infinity();
  options.training.independent_updates = table_of(plan).weights == WeightVersions::Newest;
  require(!options.training.independent_updates || settings.clip == 0,
          fmt::format("the schedule {} updates each stage as soon as it can, so gradients "
                      "cannot be clipped by their global norm; use --clip 0, or another schedule",
                      plan.schedule));
  options.training.no_decay = {".bias"};
  options.training.master_weights = settings.master == "f32";
  if (dtype_of(model) == DType::F16) {
    options.training.loss_scaling.emplace().initial = settings.loss_scale;
  }
  options.plan = plan_of_worker(plan, sync);
  options.split_update = updates_elsewhere(sync);
  options.model_copies = model_copies(sync);
  options.seed = settings.seed;
  return options;
}

bool has_checkpoint(const RunOptions& options) {
  return !options.resume.empty() && !list_steps(options.resume + "/checkpoints").empty();
}

LoadedCheckpoint open_checkpoint(const RunOptions& options) {
  auto loaded = load_latest(options.resume + "/checkpoints");
  if (!loaded) {
    throw Error(ErrorKind::Input,
                fmt::format("{} has no checkpoint to resume from", options.resume));
  }
  const std::int64_t step = loaded->checkpoint.info.step;
  if (step >= options.settings.steps && options.export_folder.empty()) {
    throw Error(ErrorKind::Usage,
                fmt::format("--resume: this run already took its {} steps; request more, such as "
                            "--steps {}",
                            step, 2 * step));
  }
  return std::move(*loaded);
}

}  // namespace trireme::train
