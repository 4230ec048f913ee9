// Workers with their own models.
#include <utility>

#include "train/run/training_run_impl.h"

namespace trireme {
namespace {

/// The share traced kernel by kernel: earlier ones touch memory for the first time.
constexpr std::int64_t kTracedShare = 3;

}  // namespace

train::StretchEnd TrainingRun::Impl::run_workers(train::Stretch stretch) {
  stretch.done = own_steps_.within(stretch.first, stretch.last);
  const std::unique_ptr<train::StepBoard> board = sync_->open_board(stretch);
  const auto run = [&](const train::BatchShare& share) { return run_share(share, stretch.first); };
  train::StretchEnd end = train::run_stretch(
      *board, stretch, {.run_share = run, .publish = [this](const StepReport& r) { publish(r); }});
  // Some workers have trained on a wrong batch by now, so this is not saved.
  if (const int reporter = ranks_.first_with(data_error_.has_value()); reporter < ranks_.count()) {
    ranks_.require_reported_by(reporter);
    throw Error(*data_error_);
  }
  trainer_.set_step(end.last);
  position_ = data_.training->advance(position_, (end.last - stretch.first) * settings_.batch);
  if (ranks_.any(failure_.has_value())) {
    give_up(failure_);
  }
  if (end.unpublished) {
    end.last_report = publish(end.last_report);
  }
  return end;
}

StepReport TrainingRun::Impl::publish(const StepReport& report) {
  const bool is_new = report.step > recorded_;
  StepReport recorded = record(report);
  if (is_new) {
    notify(options_.observer.step, facts_, recorded);
  }
  return recorded;
}

train::ShareResult TrainingRun::Impl::run_share(const train::BatchShare& share,
                                                std::int64_t first) {
  const std::int64_t size = settings_.batch / ranks_.workers();
  const std::int64_t at = (share.step - 1 - first) * settings_.batch + share.part * size;
  read_batch(*data_.training, data_.training->advance(position_, at));
  trainer_.set_step(share.step - 1);
  sync_->begin_step();
  wait_as_slow_worker(shares_);
  const bool traced = ++shares_ == kTracedShare && ranks_.worker() == 0;
  Trace trace;
  last_result_ = take_step(traced ? &trace : nullptr);
  if (!last_result_.finite && !failure_) {
    failure_ = Failure{.result = last_result_, .found = trainer_.find_non_finite()};
  }
  const train::Moved moved = sync_->mix(share.step);
  if (traced) {
    write_trace(std::move(trace));
  }
  // The stretch also ends when it is time to save.
  const bool stop = should_stop() || (ranks_.leads() && save_timer_ && save_timer_->time_is_up());
  const train::ShareResult result{.loss = last_result_.loss,
                                  .gradient_norm = last_result_.gradient_norm,
                                  .rate = last_result_.rate,
                                  .loss_scale = last_result_.loss_scale.value_or(0),
                                  .moved = moved.distance,
                                  .length = moved.length,
                                  .failed = failure_ || data_error_ ? 1.0 : 0.0,
                                  .stop = stop ? 1.0 : 0.0,
                                  .clock = moved.clock,
                                  .slowest_clock = moved.slowest_clock};
  own_steps_.add(share.step, result);
  return result;
}

}  // namespace trireme
