#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/failure_text.h"
#include "train/run/gather_traces.h"
#include "train/run/loss_history.h"
#include "train/run/memory_check.h"
#include "train/run/ranks.h"
#include "train/run/run_facts.h"
#include "train/run/run_folder.h"
#include "train/run/run_model.h"
#include "train/run/run_setup.h"
#include "train/step/trainer.h"
#include "train/sync/make_strategy.h"
#include "train/sync/stretch.h"
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

constexpr std::int64_t kValidationBatches = 8;
/// The step traced kernel by kernel: earlier ones touch memory for the first time.
constexpr std::int64_t kTracedStep = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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
        ranks_(options_.plan, parse_sync(settings_.sync), world),
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
    if (const SyncSpec sync = parse_sync(settings_.sync); has_replicas(sync)) {
      sync_ = train::make_sync_strategy(
          sync,
          {.trainer = trainer_, .workers = ranks_.counterparts(), .all = ranks_.world()->all()});
    }
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
    bool stopped = false;
    while (trainer_.step() < settings_.steps && !stopped && !ranks_.any(should_stop())) {
      if (sync_) {
        const std::int64_t meeting = train::next_meeting(
            trainer_.step(), settings_.steps, {options_.save_every, options_.validate_every});
        stopped = run_workers({.first = trainer_.step(), .last = meeting}).stopped;
      } else {
        notify(options_.observer.step, facts_, run_step());
      }
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
    if (sync_) {
      return run_workers({.first = trainer_.step(), .last = trainer_.step() + 1}).last_report;
    }
    data_.training->fill(position_, {inputs_, targets_});
    const bool traced = trainer_.step() - facts_.first_step + 1 == kTracedStep;
    Trace trace;
    const Clock::time_point start = Clock::now();
    wait_as_slow_worker(trainer_.step());
    last_result_ = take_step(traced ? &trace : nullptr);
    const double seconds = seconds_since(start);
    if (traced) {
      write_trace(std::move(trace));
    }
    if (!last_result_.finite) {
      give_up(Failure{.result = last_result_, .found = trainer_.find_non_finite()});
    }
    position_ = data_.training->advance(position_, settings_.batch);
    return record({.step = last_result_.step,
                   .loss = last_result_.loss,
                   .gradient_norm = last_result_.gradient_norm,
                   .rate = last_result_.rate,
                   .step_time = {seconds},
                   .loss_scale = last_result_.loss_scale});
  }

  std::optional<double> evaluate() {
    if (!data_.validation) {
      return std::nullopt;
    }
    if (!sync_) {
      return validation_loss();
    }
    double loss = 0;
    sync_->with_average([&] { loss = validation_loss(); });
    ranks_.counterparts().run(allreduce<double>(std::span(&loss, 1)));
    return loss / ranks_.workers();
  }

  std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                   double temperature) {
    std::vector<std::int32_t> tokens;
    const auto draw = [&] {
      tokens = trainer_.sample(std::move(prompt), count, temperature, settings_.seed);
    };
    sync_ ? sync_->with_average(draw) : draw();
    return tokens;
  }

  /// Never saves non-finite parameters: no run could resume from them.
  std::string save() {
    if (record_) {
      record_->flush();
    }
    if (sync_) {
      sync_->settle();
    }
    const std::optional<NonFinite> found = trainer_.find_non_finite_state();
    if (ranks_.any(found.has_value())) {
      give_up(Failure{.result = last_result_, .found = found});
    }
    if (!ranks_.leads()) {
      if (!sync_ || ranks_.worker() == 0) {
        trainer_.give_state();
      }
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
        train::trainer_options(settings_, model_.config, options_.plan), ranks_.rank_in_worker()));
  }

  [[nodiscard]] train::TrainerOptions options_that_fit() {
    train::TrainerOptions options = train::trainer_options(settings_, model_.config, options_.plan);
    const train::MemoryNeed need =
        train::plan_memory(*compiled_, *device_, ranks_.rank_in_worker());
    if (ranks_.world() == nullptr) {
      require_memory(options, need, train::memory_for_training(options_.memory_limit), *device_);
    } else if (!has_memory(options, need, options_.memory_limit, *device_, ranks_)) {
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

  // Workers with models of their own.

  /// Lets the workers take these steps, each at its own pace as far as the strategy allows. Collective.
  train::StretchEnd run_workers(const train::Stretch& stretch) {
    const std::unique_ptr<train::StepBoard> board = sync_->open_board(stretch);
    const auto publish = [&](const StepReport& report) {
      notify(options_.observer.step, facts_, record(report));
    };
    const auto run = [&](const train::BatchShare& share) {
      return run_share(share, stretch.first);
    };
    train::StretchEnd end =
        train::run_stretch(*board, stretch, {.run_share = run, .publish = publish});
    trainer_.set_step(end.last);
    position_ = data_.training->advance(position_, (end.last - stretch.first) * settings_.batch);
    if (ranks_.any(failure_.has_value())) {
      give_up(failure_);
    }
    if (end.unpublished) {
      end.last_report = record(end.last_report);
      notify(options_.observer.step, facts_, end.last_report);
    }
    return end;
  }

  /// Takes this worker's step on its share of a batch. `first` is the step that position_ belongs to.
  train::ShareResult run_share(const train::BatchShare& share, std::int64_t first) {
    const std::int64_t size = settings_.batch / ranks_.workers();
    data_.training->fill(
        data_.training->advance(position_,
                                (share.step - 1 - first) * settings_.batch + share.part * size),
        {inputs_, targets_});
    trainer_.set_step(share.step - 1);
    wait_as_slow_worker(shares_);
    const bool traced = ++shares_ == kTracedStep && ranks_.worker() == 0;
    Trace trace;
    last_result_ = take_step(traced ? &trace : nullptr);
    if (!last_result_.finite && !failure_) {
      failure_ = Failure{.result = last_result_, .found = trainer_.find_non_finite()};
    }
    const train::Moved moved = sync_->mix(share.step);
    if (traced) {
      write_trace(std::move(trace));
    }
    return {.loss = last_result_.loss,
            .gradient_norm = last_result_.gradient_norm,
            .rate = last_result_.rate,
            .loss_scale = last_result_.loss_scale.value_or(0),
            .moved = moved.distance,
            .length = moved.length,
            .failed = failure_ ? 1.0 : 0.0,
            .stop = should_stop() ? 1.0 : 0.0};
  }

  void wait_as_slow_worker(std::int64_t step) const {
    if (options_.delay) {
      const Seconds delay = options_.delay(ranks_.worker(), step);
      std::this_thread::sleep_for(std::chrono::duration<double>(delay.count));
    }
  }

  [[nodiscard]] double validation_loss() {
    const std::int64_t size = settings_.batch / ranks_.workers();
    DataPosition at = data_.validation->advance({}, (sync_ ? ranks_.worker() : 0) * size);
    double sum = 0;
    for (std::int64_t i = 0; i < kValidationBatches; ++i) {
      data_.validation->fill(at, {inputs_, targets_});
      at = data_.validation->advance(at, settings_.batch);
      sum += trainer_.evaluate(inputs_, targets_);
    }
    return sum / static_cast<double>(kValidationBatches);
  }

  /// Repeats the step with half the loss scale while that may help.
  StepResult take_step(Trace* trace) {
    StepResult result;
    do {
      if (trace != nullptr) {
        *trace = {};
      }
      result = sync_ ? sync_->run_step(inputs_, targets_, trace)
                     : trainer_.run_step(inputs_, targets_, trace);
      overflows_ += result.overflowed ? 1 : 0;
    } while (result.overflowed);
    return result;
  }

  void write_trace(Trace trace) {
    if (ranks_.world() != nullptr && !sync_) {
      trace = train::gather_traces(*ranks_.world(), std::move(trace));
    }
    if (ranks_.leads()) {
      trace.title = fmt::format("{}, step {}", name_of(model_.config), last_result_.step);
      write_file(folder_ + "/trace.json", to_chrome_json(trace));
    }
  }

  /// Records a step in the run folder, and validates if that is due. Collective then.
  StepReport record(StepReport report) {
    if (options_.validate_every > 0 && report.step % options_.validate_every == 0) {
      report.validation = evaluate();
    }
    losses_.add(report.loss);
    step_times_.push_back(report.step_time.count);
    if (record_) {
      record_->add(facts_, report);
    }
    return report;
  }

  /// A step whose loss or gradients were not finite.
  struct Failure {
    StepResult result{};
    std::optional<NonFinite> found{};

    /// The model itself is not finite, or that is not known.
    [[nodiscard]] bool spoils_model() const { return !found || found->instruction < 0; }
  };

  /// Training cannot recover from a non-finite loss. Saves the steps before it, if they are finite. Collective;
  /// `failure` is this rank's, if any.
  [[noreturn]] void give_up(const std::optional<Failure>& failure) {
    const bool sound = !ranks_.any(failure && failure->spoils_model());
    if (sound && trainer_.step() > facts_.first_step) {
      save();
    }
    const int with_place = ranks_.first_with(failure && failure->found);
    const int with_failure = ranks_.first_with(failure.has_value());
    ranks_.require_reported_by(with_place < ranks_.count() ? with_place : with_failure);
    train::TrainFailure text;
    text.result = failure->result;
    text.found = failure->found;
    text.run_folder = folder_;
    text.checkpoint = newest_checkpoint();
    text.at_once = trainer_.step() == facts_.first_step;
    text.rate = train::smaller_rate(settings_, model_.config, failure->result.rate);
    throw Error(ErrorKind::Input, failure_text(text, trainer_.program()));
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
    summary.first_loss = losses_.first();
    summary.loss = losses_.mean_of_last();
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
  train::LossHistory losses_;
  std::vector<double> step_times_;
  std::int64_t overflows_ = 0;
  StepResult last_result_{};
  std::unique_ptr<train::SyncStrategy> sync_;  ///< if workers have models of their own
  std::optional<Failure> failure_;             ///< this worker's first
  std::int64_t shares_ = 0;                    ///< of batches, that this rank has trained on
  std::optional<train::StepRecord> record_;    ///< rank 0 only
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
