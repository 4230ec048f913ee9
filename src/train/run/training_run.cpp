#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/failure_text.h"
#include "train/run/gather_traces.h"
#include "train/run/memory_check.h"
#include "train/run/ranks.h"
#include "train/run/run_facts.h"
#include "train/run/run_folder.h"
#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "train/step/trainer.h"
#include "trireme/compiled_plan.h"
#include "trireme/error.h"
#include "trireme/files.h"
#include "trireme/trace.h"
#include "trireme/train.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using train::CompiledTraining;
using train::StepResult;

/// The final loss is the mean over this many last steps.
constexpr std::size_t kLastSteps = 20;
constexpr std::int64_t kValidationBatches = 8;
/// The step traced kernel by kernel: earlier ones touch memory for the first time.
constexpr std::int64_t kTracedStep = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The model's default rate or, if the rate used was no larger, a third of that.
std::string smaller_rate(const TrainSettings& settings, const AnyModelConfig& model, double rate) {
  train::LearningRate smaller = train::default_learning_rate(settings, model);
  if (rate <= smaller.peak) {
    smaller.peak = rate / 3;
  }
  smaller.peak = std::stod(fmt::format("{:.2g}", smaller.peak));
  smaller.least = std::stod(fmt::format("{:.2g}", smaller.peak / 10));
  return to_text(smaller);
}

RunOptions checked(RunOptions options) {
  require_valid(options);
  return options;
}

}  // namespace

class TrainingRun::Impl {
 public:
  Impl(RunOptions&& options, World* world, std::shared_ptr<const CompiledTraining> compiled)
      : options_(checked(std::move(options))),
        settings_(options_.settings),
        ranks_(options_.plan, world),
        named_(train::find_model(options_)),
        data_(train::open_data(options_, named_.config)),
        model_(train::open_run_model(settings_, named_, data_.vocabulary, resumes())),
        device_(options_.make_device(ranks_.by_host().front())),
        compiled_(compiled != nullptr ? std::move(compiled) : compile()),
        trainer_(options_that_fit(), compiled_, *device_, ranks_.communicator()),
        folder_(choose_folder()) {
    inputs_.resize(static_cast<std::size_t>(trainer_.input_bytes().count));
    targets_.resize(static_cast<std::size_t>(trainer_.target_bytes().count));
    train::load_weights(model_, trainer_, ranks_.world());
    if (model_.weights) {
      settings_.weights = model_.weights->path();
    }
    settings_.recompute = to_text(options_.plan.recompute);
    if (!options_.export_folder.empty()) {
      check_hugging_face_export(weighted(model_, trainer_), export_to(options_.export_folder));
    }
    open_folder();
    facts_ = train::collect_facts({.settings = settings_,
                                   .plan = options_.plan,
                                   .data = data_,
                                   .model = model_,
                                   .host = options_.host},
                                  ranks_, *compiled_, trainer_, *device_);
  }

  [[nodiscard]] int rank() const { return ranks_.rank(); }
  [[nodiscard]] const RunFacts& facts() const { return facts_; }
  [[nodiscard]] std::int64_t step() const { return trainer_.step(); }
  [[nodiscard]] const std::string& run_folder() const { return folder_; }
  [[nodiscard]] const TrainData& data() const { return data_; }

  RunSummary train() {
    notify(options_.observer.begin, facts_);
    const Clock::time_point start = Clock::now();
    while (trainer_.step() < settings_.steps && !ranks_.any(should_stop())) {
      notify(options_.observer.step, facts_, run_step());
      if (options_.save_every > 0 && trainer_.step() % options_.save_every == 0) {
        save();
      }
    }
    const double seconds = seconds_since(start);
    save();
    if (!options_.export_folder.empty()) {
      export_model(options_.export_folder);
    }
    RunSummary summary = summarize(seconds);
    notify(options_.observer.end, facts_, summary);
    return summary;
  }

  StepReport run_step() {
    data_.training->fill(position_, {inputs_, targets_});
    const bool traced = trainer_.step() - facts_.first_step + 1 == kTracedStep;
    Trace trace;
    const Clock::time_point start = Clock::now();
    last_result_ = take_step(traced ? &trace : nullptr);
    const double seconds = seconds_since(start);
    if (traced) {
      write_trace(std::move(trace));
    }
    if (!last_result_.finite) {
      give_up(last_result_, trainer_.find_non_finite());
    }
    position_ = data_.training->advance(position_, settings_.batch);
    return record(seconds);
  }

  std::optional<double> evaluate() {
    if (!data_.validation) {
      return std::nullopt;
    }
    DataPosition at{};
    double sum = 0;
    for (std::int64_t i = 0; i < kValidationBatches; ++i) {
      data_.validation->fill(at, {inputs_, targets_});
      at = data_.validation->advance(at, settings_.batch);
      sum += trainer_.evaluate(inputs_, targets_);
    }
    return sum / static_cast<double>(kValidationBatches);
  }

  std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                   double temperature) {
    return trainer_.sample(std::move(prompt), count, temperature, settings_.seed);
  }

  /// Never saves non-finite parameters: no run could resume from them.
  std::string save() {
    if (record_) {
      record_->flush();
    }
    const std::optional<NonFinite> found = trainer_.find_non_finite_state();
    if (ranks_.any(found.has_value())) {
      give_up(last_result_, found);
    }
    if (!ranks_.leads()) {
      trainer_.give_state();
      return {};
    }
    return train::save_checkpoint(
        folder_ + "/checkpoints",
        trainer_.state({.step = 0, .seed = 0, .data = position_, .config = to_text(settings_)}));
  }

  void export_model(const std::string& folder) {
    if (ranks_.count() > 1) {
      throw Error(ErrorKind::Usage,
                  "a model is exported by a run on one device: resume this one there");
    }
    save_hugging_face(
        weighted(model_, trainer_),
        [this](const ModelParameter& parameter) { return trainer_.read(parameter); },
        export_to(folder));
  }

 private:
  template <class Callback, class... Arguments>
  void notify(const Callback& callback, const Arguments&... arguments) {
    if (callback && ranks_.leads()) {
      callback(arguments...);
    }
  }
  [[nodiscard]] bool resumes() const { return !options_.resume.empty(); }
  [[nodiscard]] bool should_stop() const { return options_.should_stop && options_.should_stop(); }

  [[nodiscard]] std::shared_ptr<const CompiledTraining> compile() const {
    return std::make_shared<const CompiledTraining>(train::compile_training(
        train::trainer_options(settings_, model_.config, options_.plan), ranks_.rank()));
  }

  [[nodiscard]] train::TrainerOptions options_that_fit() {
    train::TrainerOptions options = train::trainer_options(settings_, model_.config, options_.plan);
    const train::MemoryNeed need = train::plan_memory(*compiled_, *device_, ranks_.rank());
    if (ranks_.world() == nullptr) {
      require_memory(options, need, train::memory_for_training(options_.memory_limit), *device_);
    } else if (!has_memory(options, need, options_.memory_limit, *device_, *ranks_.world())) {
      throw ReportedElsewhere();
    }
    return options;
  }

  [[nodiscard]] std::string choose_folder() const {
    if (resumes()) {
      return options_.resume;
    }
    return options_.run_folder.empty() ? train::free_run_folder(name_of(model_.config))
                                       : options_.run_folder;
  }

  void open_folder() {
    if (resumes()) {
      resume();
    }
    if (!ranks_.leads()) {
      return;
    }
    train::make_run_folder(folder_);
    if (ranks_.count() > 1) {
      write_file(folder_ + "/plan.json", to_text(options_.plan));
    }
    write_file(folder_ + "/settings.json", to_text(settings_));
    if (const std::string description = run_description(model_); !description.empty()) {
      write_file(folder_ + "/config.json", description);
    }
    record_.emplace(folder_, options_.tensorboard);
  }

  void resume() {
    const train::LoadedCheckpoint loaded = train::open_checkpoint(options_);
    if (!loaded.warning.empty()) {
      notify(options_.observer.warning, loaded.warning);
    }
    trainer_.restore(loaded.checkpoint);
    const std::optional<NonFinite> found = trainer_.find_non_finite_state();
    if (const int reporter = ranks_.first_with(found.has_value()); reporter < ranks_.count()) {
      ranks_.require_reported_by(reporter);
      throw Error(ErrorKind::Input,
                  fmt::format("cannot resume from {}: {}; remove that folder to resume from the "
                              "checkpoint before it",
                              loaded.checkpoint.path, to_text(*found, trainer_.program())));
    }
    position_ = loaded.checkpoint.info.data;
  }

  /// Repeats the step with half the loss scale while that may help.
  StepResult take_step(Trace* trace) {
    StepResult result;
    do {
      if (trace != nullptr) {
        *trace = {};
      }
      result = trainer_.run_step(inputs_, targets_, trace);
      overflows_ += result.overflowed ? 1 : 0;
    } while (result.overflowed);
    return result;
  }

  void write_trace(Trace trace) {
    if (ranks_.world() != nullptr) {
      trace = train::gather_traces(*ranks_.world(), std::move(trace));
    }
    if (ranks_.leads()) {
      trace.title = fmt::format("{}, step {}", name_of(model_.config), last_result_.step);
      write_file(folder_ + "/trace.json", to_chrome_json(trace));
    }
  }

  /// Reports the last step, and records it in the run folder.
  StepReport record(double seconds) {
    const StepResult& result = last_result_;
    StepReport report{.step = result.step,
                      .loss = result.loss,
                      .gradient_norm = result.gradient_norm,
                      .rate = result.rate,
                      .step_time = {seconds},
                      .loss_scale = result.loss_scale,
                      .validation = {}};
    if (options_.validate_every > 0 && result.step % options_.validate_every == 0) {
      report.validation = evaluate();
    }
    step_times_.push_back(seconds);
    first_loss_ = first_loss_.value_or(result.loss);
    last_losses_.push_back(result.loss);
    if (last_losses_.size() > kLastSteps) {
      last_losses_.pop_front();
    }
    if (record_) {
      record_->add(facts_, report);
    }
    return report;
  }

  /// Training cannot recover from a non-finite loss. Saves the steps before it, if they are finite.
  [[noreturn]] void give_up(const StepResult& result, const std::optional<NonFinite>& found) {
    const bool sound = !ranks_.any(!found || found->instruction < 0);
    if (sound && trainer_.step() > facts_.first_step) {
      save();
    }
    const int reporter = ranks_.first_with(found.has_value());
    ranks_.require_reported_by(reporter < ranks_.count() ? reporter : 0);
    train::TrainFailure failure;
    failure.result = result;
    failure.found = found;
    failure.run_folder = folder_;
    failure.checkpoint = newest_checkpoint();
    failure.at_once = trainer_.step() == facts_.first_step;
    failure.rate = smaller_rate(settings_, model_.config, result.rate);
    throw Error(ErrorKind::Input, failure_text(failure, trainer_.program()));
  }

  [[nodiscard]] std::string newest_checkpoint() const {
    const std::string checkpoints = folder_ + "/checkpoints";
    const std::vector<train::SavedStep> saved = train::list_steps(checkpoints);
    return saved.empty() ? "" : checkpoints + "/" + saved.front().name;
  }

  [[nodiscard]] HuggingFaceExport export_to(const std::string& folder) const {
    HuggingFaceExport to;
    to.folder = folder;
    to.original_config = model_.description;
    return to;
  }

  std::string sample_text() {
    if (settings_.dtype != "f32" || !data_.text) {
      return {};
    }
    constexpr std::int64_t kShown = 60;
    std::int32_t first = 0;
    std::memcpy(&first, inputs_.data(), sizeof(first));
    return trireme::text_of(data_, sample({first}, kShown, 0.8));
  }

  [[nodiscard]] std::optional<double> mean_of_last_losses() const {
    std::optional<double> loss;
    for (const double one : last_losses_) {
      loss = loss.value_or(0) + one / static_cast<double>(last_losses_.size());
    }
    return loss;
  }

  [[nodiscard]] Seconds median_step_time() {
    if (step_times_.empty()) {
      return {};
    }
    const auto middle = step_times_.begin() + static_cast<std::ptrdiff_t>(step_times_.size() / 2);
    std::ranges::nth_element(step_times_, middle);
    return {*middle};
  }

  RunSummary summarize(double seconds) {
    const std::int64_t steps = trainer_.step() - facts_.first_step;
    RunSummary summary;
    summary.step = trainer_.step();
    summary.first_loss = first_loss_;
    summary.loss = mean_of_last_losses();
    summary.validation = evaluate();
    summary.time = {seconds};
    summary.step_time = median_step_time();
    summary.units_per_second = static_cast<double>(steps * facts_.units_per_step) / seconds;
    summary.run_folder = folder_;
    summary.exported = options_.export_folder;
    summary.sample = sample_text();
    summary.tensorboard = options_.tensorboard;
    summary.traced = std::filesystem::exists(folder_ + "/trace.json");
    summary.interrupted = trainer_.step() < settings_.steps;
    summary.overflows = overflows_;
    summary.compilations = compilation_count();
    return summary;
  }

  RunOptions options_;
  TrainSettings settings_;
  train::Ranks ranks_;
  NamedModel named_;
  TrainData data_;
  train::RunModel model_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<const CompiledTraining> compiled_;
  train::Trainer trainer_;
  std::string folder_;
  RunFacts facts_{};
  DataPosition position_{};
  std::vector<std::byte> inputs_;
  std::vector<std::byte> targets_;
  std::vector<double> step_times_;
  std::optional<double> first_loss_;
  std::deque<double> last_losses_;
  std::int64_t overflows_ = 0;
  StepResult last_result_{};
  std::optional<train::StepRecord> record_;  ///< rank 0 only
};

TrainingRun::TrainingRun(RunOptions options, World* world,
                         std::shared_ptr<const CompiledTraining> compiled)
    : impl_(std::make_unique<Impl>(std::move(options), world, std::move(compiled))) {}

TrainingRun::~TrainingRun() = default;

int TrainingRun::rank() const {
  return impl_->rank();
}
const RunFacts& TrainingRun::facts() const {
  return impl_->facts();
}
std::int64_t TrainingRun::step() const {
  return impl_->step();
}
const std::string& TrainingRun::run_folder() const {
  return impl_->run_folder();
}
RunSummary TrainingRun::train() {
  return impl_->train();
}
StepReport TrainingRun::run_step() {
  return impl_->run_step();
}
std::optional<double> TrainingRun::evaluate() {
  return impl_->evaluate();
}
std::vector<std::int32_t> TrainingRun::sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                              double temperature) {
  return impl_->sample(std::move(prompt), count, temperature);
}
std::string TrainingRun::text_of(std::span<const std::int32_t> tokens) const {
  return impl_->data().text ? trireme::text_of(impl_->data(), tokens) : "";
}
std::string TrainingRun::save() {
  return impl_->save();
}
void TrainingRun::export_model(const std::string& folder) {
  impl_->export_model(folder);
}

}  // namespace trireme
