// The results of a training run: validation, samples, metrics, its summary.
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/median.h"
#include "train/run/gather_traces.h"
#include "train/run/training_run_impl.h"
#include "trireme/compiled_plan.h"
#include "trireme/files.h"
#include "trireme/run_record.h"

namespace trireme {
namespace {

constexpr std::int64_t kValidationBatches = 8;

}  // namespace

std::optional<double> TrainingRun::Impl::evaluate() {
  if (!data_.validation) {
    return std::nullopt;
  }
  double loss = 0;
  if (sync_) {
    // Each worker has a part; those that live also do the parts of the dead.
    Group& workers = ranks_.counterparts();
    sync_->with_average([&] {
      for (int part = workers.rank(); part < ranks_.workers(); part += workers.size()) {
        loss += validation_loss(part);
      }
    });
    workers.run(allreduce<double>(std::span(&loss, 1)));
    loss /= ranks_.workers();
  } else {
    loss = validation_loss(0);
  }
  return ranks_.any(data_error_.has_value()) ? std::nullopt : std::optional(loss);
}

/// A rank that cannot read a batch participates with an earlier one, because the others wait for
/// it.
void TrainingRun::Impl::read_batch(const Batches& from, DataPosition at) {
  try {
    from.fill(at, {inputs_, targets_});
  } catch (const Error& error) {
    data_error_ = error;
  }
}

double TrainingRun::Impl::validation_loss(int part) {
  const std::int64_t size = settings_.batch / ranks_.workers();
  DataPosition at = data_.validation->advance({}, part * size);
  double sum = 0;
  for (std::int64_t i = 0; i < kValidationBatches; ++i) {
    read_batch(*data_.validation, at);
    at = data_.validation->advance(at, settings_.batch);
    sum += trainer_.evaluate(inputs_, targets_);
  }
  return sum / static_cast<double>(kValidationBatches);
}

std::vector<std::int32_t> TrainingRun::Impl::sample(std::vector<std::int32_t> prompt,
                                                    std::int64_t count, double temperature) {
  std::vector<std::int32_t> tokens;
  const auto draw = [&] {
    tokens = trainer_.sample(std::move(prompt), count, temperature, settings_.seed);
  };
  sync_ ? sync_->with_average(draw) : draw();
  return tokens;
}

void TrainingRun::Impl::write_trace(Trace trace) {
  if (ranks_.world() != nullptr && !sync_) {
    trace = train::gather_traces(*ranks_.world(), std::move(trace));
  }
  if (ranks_.leads()) {
    trace.title = fmt::format("{}, step {}", name_of(model_.config), last_result_.step);
    trace.details.push_back({"step", last_result_.step});
    write_file(folder_ + "/trace.json", to_chrome_json(trace));
    trace_ = std::move(trace);
    traced_step_ = last_result_.step;
  }
}

void TrainingRun::Impl::explain_traced_step(const StepReport& report) {
  if (trace_ && report.step >= traced_step_) {
    if (report.step == traced_step_) {
      waterfall_ = waterfall_of(*trace_, {.step = report.step,
                                          .step_time = report.step_time,
                                          .mfu = mfu(facts_, report.step_time),
                                          .hfu = hfu(facts_, report.step_time)});
    }
    trace_.reset();
  }
}

StepReport TrainingRun::Impl::record(StepReport report) {
  if (settings_.validate_every > 0 &&
      (report.step % settings_.validate_every == 0 || report.step == settings_.steps)) {
    report.validation = evaluate();
    validated_step_ = report.step;
    last_validation_ = report.validation;
  }
  if (sync_ && report.step <= recorded_) {
    return report;  // before a worker died
  }
  if (report.validation && ranks_.leads()) {
    improved_ = validations_.add(report.step, *report.validation) || improved_;
  }
  recorded_ = report.step;
  keep_recent(report);
  last_experts_ = report.experts;
  losses_.add(report.loss);
  step_times_.push_back(report.step_time.count);
  explain_traced_step(report);
  if (record_) {
    record_->add(facts_, report);
  }
  return report;
}

void TrainingRun::Impl::keep_recent(const StepReport& report) {
  constexpr std::size_t kKept = 2UL * (train::kMaxLead + 2);
  recent_.push_back(report);
  if (recent_.size() > kKept) {
    recent_.pop_front();
  }
}

std::string TrainingRun::Impl::sample_text() {
  if (settings_.dtype != "f32" || !data_.text) {
    return {};
  }
  constexpr std::int64_t kShown = 60;
  std::int32_t first = 0;
  std::memcpy(&first, inputs_.data(), sizeof(first));
  return trireme::text_of(data_, sample({first}, kShown, 0.8));
}

Seconds TrainingRun::Impl::median_step_time() {
  return {median(step_times_)};
}

void TrainingRun::Impl::write_facts() {
  if (!is_read_only()) {
    lead([this] {
      write_file(folder_ + "/facts.json",
                 to_text(RecordedFacts{.facts = facts_, .environment = find_environment()}));
      std::error_code ignored;
      std::filesystem::remove(folder_ + "/summary.json", ignored);  // of the run that this resumes
    });
  }
}

void TrainingRun::Impl::write_summary(const RunSummary& summary) {
  if (record_) {
    write_file(folder_ + "/summary.json", to_json(facts_, summary) + "\n");
  }
}

RunSummary TrainingRun::Impl::summarize(double seconds) {
  const std::int64_t steps = trainer_.step() - facts_.first_step;
  RunSummary summary;
  summary.step = trainer_.step();
  summary.first_loss = losses_.first();
  summary.loss = losses_.mean_of_last();
  // A stopped run skips what `trireme evaluate` and `trireme generate` can do later.
  if (!ranks_.any(validated_step_ != trainer_.step())) {
    summary.validation = last_validation_;
  } else if (!interrupted_) {
    summary.validation = evaluate();
  }
  summary.sample = interrupted_ ? "" : sample_text();
  summary.time = {seconds};
  summary.step_time = median_step_time();
  summary.units_per_second = static_cast<double>(steps * facts_.units_per_step) / seconds;
  summary.run_folder = folder_;
  summary.exported = options_.export_folder;
  summary.tensorboard = settings_.tensorboard;
  summary.traced = std::filesystem::exists(folder_ + "/trace.json");
  summary.waterfall = waterfall_;
  if (settings_.keep_best || settings_.patience > 0) {
    summary.best = validations_.best();
    summary.best_folder = settings_.keep_best ? folder_ + "/best" : "";
  }
  summary.stopped_early = trainer_.step() < settings_.steps && out_of_patience();
  summary.interrupted = trainer_.step() < settings_.steps && !summary.stopped_early;
  summary.overflows = overflows_;
  summary.experts = last_experts_;
  summary.compilations = compilation_count();
  return summary;
}

}  // namespace trireme
