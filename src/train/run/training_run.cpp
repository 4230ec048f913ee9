#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tensor/container_size.h"
#include "train/clock.h"
#include "train/run/memory_check.h"
#include "train/run/rank_data.h"
#include "train/run/run_facts.h"
#include "train/run/run_setup.h"
#include "train/run/training_run_impl.h"

namespace trireme {
namespace {

using train::Clock;
using train::CompiledTraining;
using train::StepResult;

/// The step traced kernel by kernel: earlier ones touch memory for the first time.
constexpr std::int64_t kTracedStep = 3;

RunOptions checked(RunOptions options) {
  require_valid(options);
  return options;
}

}  // namespace

TrainingRun::Impl::Impl(RunOptions&& options, World* world,
                        std::shared_ptr<const CompiledTraining> compiled)
    : options_(checked(std::move(options))),
      settings_(options_.settings),
      ranks_(options_.plan, parse_sync(settings_.sync), world),
      has_checkpoint_(train::has_checkpoint(options_)),
      named_(train::find_model(options_)),
      data_(open_data()),
      model_(train::open_run_model(settings_, named_, data_.vocabulary, has_checkpoint_)),
      device_(
          options_.make_device({.rank = ranks_.rank_on_host(), .ranks = ranks_.by_host().front()})),
      compiled_(compiled != nullptr ? std::move(compiled) : compile()),
      trainer_(options_that_fit(), compiled_, *device_, ranks_.communicator()) {
  inputs_.resize(container_size(trainer_.input_bytes()));
  targets_.resize(container_size(trainer_.target_bytes()));
  train::load_weights(model_, trainer_, ranks_.world());
  if (model_.weights) {
    settings_.weights = model_.weights->path();
  }
  settings_.recompute = to_text(options_.plan.recompute);
  if (!options_.export_folder.empty()) {
    check_export();
  }
  folder_ = choose_folder();
  open_folder();
  if (const SyncSpec sync = parse_sync(settings_.sync); has_replicas(sync)) {
    sync_ = train::make_sync_strategy(sync, {.trainer = trainer_,
                                             .workers = ranks_.counterparts(),
                                             .all = ranks_.all(),
                                             .servers = options_.servers});
  }
  facts_ = train::collect_facts({.settings = settings_,
                                 .plan = options_.plan,
                                 .data = data_,
                                 .model = model_,
                                 .host = options_.host,
                                 .memory = memory_},
                                ranks_, *compiled_, trainer_, *device_);
  recorded_ = trainer_.step();
  first_position_ = position_;
  write_facts();
}

TrainData TrainingRun::Impl::open_data() {
  TrainData data = train::open_data(options_, named_.config, ranks_.worker());
  if (train::has_rank_files(settings_) && !options_.open_data) {
    train::share_rank_files(data, settings_, options_.plan, ranks_);
  }
  return data;
}

std::shared_ptr<const CompiledTraining> TrainingRun::Impl::compile() const {
  train::TrainerOptions options = train::trainer_options(settings_, model_.config, options_.plan);
  options.fusions = device_->fusions();
  return std::make_shared<const CompiledTraining>(
      train::compile_training(options, ranks_.rank_in_worker()));
}

train::TrainerOptions TrainingRun::Impl::options_that_fit() {
  train::TrainerOptions options = train::trainer_options(settings_, model_.config, options_.plan);
  memory_ = train::plan_memory(*compiled_, *device_, ranks_.rank_in_worker());
  if (ranks_.world() == nullptr) {
    require_memory(options, memory_, train::memory_for_training(options_.memory_limit, *device_),
                   *device_);
  } else if (!has_memory(options, memory_, options_.memory_limit, *device_, ranks_)) {
    throw ReportedElsewhere();
  }
  return options;
}

RunSummary TrainingRun::Impl::train() {
  notify(options_.observer.begin, facts_);
  const Clock::time_point start = Clock::now();
  save_timer_.emplace(parse_save_interval(settings_.save_every),
                      has_checkpoint_ ? trainer_.step() : -1);
  bool is_interrupted = false;  // by the death of a worker
  for (;;) {
    try {
      if (std::exchange(is_interrupted, false)) {
        continue_without_dead();
      }
      run_steps();
      return finish(train::since(start).count);
    } catch (const CommError& error) {
      if (!survives(error)) {
        throw;
      }
      is_interrupted = true;
    }
  }
}

void TrainingRun::Impl::run_steps() {
  const SaveInterval interval = parse_save_interval(settings_.save_every);
  while (trainer_.step() < settings_.steps) {
    const Agreed agreed = agree();
    if (agreed.without_data < ranks_.count()) {
      give_up_on_data(agreed.without_data);
    }
    if (agreed.save_best) {
      save_best();
    }
    if (agreed.save) {
      save();
    }
    if (agreed.stop) {
      interrupted_ = agreed.interrupted;
      break;
    }
    if (sync_) {
      run_workers({.first = trainer_.step(),
                   .last = train::next_meeting(trainer_.step(), settings_.steps,
                                               {interval.steps, settings_.validate_every})});
    } else {
      notify(options_.observer.step, facts_, train_on_batch());
    }
  }
}

RunSummary TrainingRun::Impl::finish(double seconds) {
  if (settings_.keep_best && ranks_.any(improved_)) {
    save_best();
  }
  if (ranks_.any(!save_timer_->has_saved(trainer_.step()))) {
    save();
  }
  RunSummary summary = summarize(seconds);
  if (!options_.export_folder.empty()) {
    restore_best();
    export_model(options_.export_folder);
  }
  write_summary(summary);
  notify(options_.observer.end, facts_, summary);
  return summary;
}

bool TrainingRun::Impl::should_stop() {
  stopping_ = stopping_ || (options_.should_stop && options_.should_stop());
  return stopping_;
}

bool TrainingRun::Impl::out_of_patience() const {
  return settings_.patience > 0 && validations_.since_best() >= settings_.patience;
}

/// Rank 0 decides when to save: the clocks of the ranks differ.
TrainingRun::Impl::Agreed TrainingRun::Impl::agree() {
  if (!sync_ && !use_next()) {
    read_batch(*data_.training, position_);
  }
  const int count = ranks_.count();
  constexpr std::int32_t kInterrupted = 2;
  std::array<std::int32_t, 4> flags{should_stop()       ? kInterrupted
                                    : out_of_patience() ? 1
                                                        : 0,
                                    ranks_.leads() && save_timer_->is_due(trainer_.step()) ? 1 : 0,
                                    settings_.keep_best && improved_ ? 1 : 0,
                                    data_error_ ? count - ranks_.rank() : 0};
  ranks_.take_maximum(flags);
  return {.stop = flags[0] != 0,
          .interrupted = flags[0] == kInterrupted,
          .save = flags[1] != 0,
          .save_best = flags[2] != 0,
          .without_data = count - flags[3]};
}

StepReport TrainingRun::Impl::run_step() {
  if (sync_) {
    return run_workers({.first = trainer_.step(), .last = trainer_.step() + 1}).last_report;
  }
  if (!use_next()) {
    data_.training->fill(position_, {inputs_, targets_});
  }
  return train_on_batch();
}

StepReport TrainingRun::Impl::train_on_batch() {
  const bool traced = trainer_.step() - facts_.first_step + 1 == kTracedStep;
  Trace trace;
  const Clock::time_point start = Clock::now();
  wait_as_slow_worker(trainer_.step());
  last_result_ = take_step(traced ? &trace : nullptr);
  const double seconds = train::since(start).count;
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
                 .loss_scale = last_result_.loss_scale,
                 .experts = trainer_.expert_loads()});
}

void TrainingRun::Impl::wait_as_slow_worker(std::int64_t step) const {
  if (options_.delay) {
    const Seconds delay = options_.delay(ranks_.worker(), step);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay.count));
  }
}

/// If it cannot be read, that is reported when its step begins.
void TrainingRun::Impl::read_ahead() {
  if (trainer_.step() + 1 >= settings_.steps || next_.is_read) {
    return;
  }
  next_.inputs.resize(inputs_.size());
  next_.targets.resize(targets_.size());
  try {
    data_.training->fill(data_.training->advance(position_, settings_.batch),
                         {next_.inputs, next_.targets});
    next_.is_read = true;
  } catch (const Error&) {
    return;
  }
  trainer_.write_ahead(next_.inputs, next_.targets);
}

bool TrainingRun::Impl::use_next() {
  if (!std::exchange(next_.is_read, false)) {
    return false;
  }
  inputs_.swap(next_.inputs);
  targets_.swap(next_.targets);
  return true;
}

StepResult TrainingRun::Impl::take_step(Trace* trace) {
  const auto while_computing = [this] {
    if (!device_->runs_inline()) {
      read_ahead();
    }
  };
  StepResult result;
  do {
    if (trace != nullptr) {
      *trace = {};
    }
    result = sync_ ? sync_->run_step(inputs_, targets_, trace)
                   : trainer_.run_step(inputs_, targets_, trace, while_computing);
    overflows_ += result.overflowed ? 1 : 0;
  } while (result.overflowed);
  return result;
}

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
