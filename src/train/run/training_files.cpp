// The folder of a training run: ownership, descriptions, checkpoints, and the files saved when a run fails.
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/data_identity.h"
#include "train/run/disk_space.h"
#include "train/run/failure_text.h"
#include "train/run/run_setup.h"
#include "train/run/training_run_impl.h"
#include "trireme/files.h"
#include "trireme/message.h"
#include "trireme/shell_word.h"

namespace trireme {
namespace {

std::int64_t bytes_of(const train::TensorSet& set) {
  std::int64_t sum = 0;
  for (const TensorSpec& spec : set.specs) {
    sum += size_of(spec).count;
  }
  return sum;
}

}  // namespace

bool TrainingRun::Impl::is_read_only() const {
  return has_checkpoint_ && !options_.export_folder.empty() && trainer_.step() >= settings_.steps;
}

std::string TrainingRun::Impl::choose_folder() const {
  if (!options_.resume.empty()) {
    return options_.resume;
  }
  // Other ranks need no folder.
  return options_.run_folder.empty() && ranks_.leads()
             ? train::new_run_folder(name_of(model_.config))
             : options_.run_folder;
}

/// A run that may turn out to export only owns its folder after the checkpoint is known.
void TrainingRun::Impl::open_folder() {
  if (options_.on_ready) {
    options_.on_ready();
  }
  if (options_.export_folder.empty()) {
    lead([this] { own_folder(); });
  }
  if (has_checkpoint_) {
    restore();
  }
  if (!is_read_only()) {
    lead([this] {
      own_folder();
      describe_run();
    });
  }
}

void TrainingRun::Impl::lead(const std::function<void()>& call) {
  std::optional<Error> problem;
  if (ranks_.leads()) {
    try {
      call();
    } catch (const Error& error) {
      problem = error;
    }
  }
  if (ranks_.any(problem.has_value())) {
    ranks_.require_reported_by(0);
    throw Error(*problem);
  }
}

void TrainingRun::Impl::own_folder() {
  if (!lock_) {
    train::make_run_folder(folder_);
    lock_.emplace(folder_);
  }
}

/// Writes the settings last: they mark the folder as a run.
void TrainingRun::Impl::describe_run() {
  const std::string identity = train::data_identity(data_, settings_);
  if (!options_.resume.empty()) {
    train::require_same_data(folder_, identity, settings_);
  }
  check_disk();
  train::write_data_identity(folder_, identity);
  write_file(folder_ + "/plan.json", to_text(options_.plan));
  if (const std::string description = run_description(model_); !description.empty()) {
    write_file(folder_ + "/config.json", description);
  }
  keep_tokenizer(folder_);
  write_file(folder_ + "/settings.json", to_text(settings_));
  record_.emplace(folder_, trainer_.step(), settings_.tensorboard);
  validations_.load(folder_ + "/metrics.jsonl");
  if (!options_.resume.empty() && !has_checkpoint_) {
    notify(options_.observer.warning,
           fmt::format("{} has no checkpoint yet: it starts over", folder_));
  }
}

void TrainingRun::Impl::check_disk() {
  const train::CheckpointState saved = state();
  train::DiskNeed need;
  need.folder = folder_;
  need.checkpoint = {bytes_of(saved.model) + (saved.optimizer ? bytes_of(*saved.optimizer) : 0)};
  need.saved = static_cast<int>(train::list_steps(folder_ + "/checkpoints").size());
  need.keep = static_cast<int>(settings_.keep) + (settings_.keep_best ? 1 : 0);
  const Bytes available = options_.free_disk_space ? options_.free_disk_space(folder_)
                                                   : train::free_disk_space(folder_);
  if (const std::string warning = check_disk_space(need, available); !warning.empty()) {
    notify(options_.observer.warning, warning);
  }
}

void TrainingRun::Impl::restore() {
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

train::CheckpointState TrainingRun::Impl::state() {
  return trainer_.state({.step = 0, .seed = 0, .data = position_, .config = to_text(settings_)});
}

/// Never saves non-finite parameters: no run could resume from them.
std::string TrainingRun::Impl::save() {
  if (record_) {
    record_->sync();
  }
  std::string path = save_into(folder_ + "/checkpoints", static_cast<int>(settings_.keep));
  if (save_timer_) {
    save_timer_->saved(trainer_.step());
  }
  return path;
}

std::string TrainingRun::Impl::save_into(const std::string& folder, int keep) {
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
  return train::save_checkpoint(folder, state(), {.keep = keep, .disk = {}});
}

void TrainingRun::Impl::save_best() {
  save_into(folder_ + "/best", 1);
  improved_ = false;
}

void TrainingRun::Impl::restore_best() {
  const auto best = settings_.keep_best ? train::load_latest(folder_ + "/best") : std::nullopt;
  if (best) {
    trainer_.restore(best->checkpoint);
  }
}

void TrainingRun::Impl::export_model(const std::string& folder) {
  std::map<std::string, std::vector<std::byte>> gathered;
  if (ranks_.count() > 1 && (!sync_ || ranks_.worker() == 0)) {
    for (const ModelParameter& parameter : trainer_.model().parameters) {
      const std::span<const std::byte> elements = trainer_.read(parameter);
      if (ranks_.leads()) {
        gathered[parameter.name].assign(elements.begin(), elements.end());
      }
    }
  }
  if (!ranks_.leads()) {
    return;
  }
  const auto read = [&](const ModelParameter& parameter) -> std::span<const std::byte> {
    const auto at = gathered.find(parameter.name);
    return at == gathered.end() ? trainer_.read(parameter) : std::span(std::as_const(at->second));
  };
  save_hugging_face(weighted(model_, trainer_), read, export_to(folder));
  keep_tokenizer(folder);
}

void TrainingRun::Impl::check_export() {
  lead([this] {
    check_hugging_face_export(weighted(model_, trainer_), export_to(options_.export_folder));
  });
}

void TrainingRun::Impl::keep_tokenizer(const std::string& folder) const {
  const std::string path =
      std::holds_alternative<ModelConfig>(model_.config) ? find_tokenizer(settings_, folder_) : "";
  const std::string copy = folder + "/tokenizer.json";
  std::error_code ignored;
  if (!path.empty() && !std::filesystem::equivalent(path, copy, ignored)) {
    write_file(copy, read_file(path));
  }
}

HuggingFaceExport TrainingRun::Impl::export_to(const std::string& folder) const {
  HuggingFaceExport to;
  to.folder = folder;
  to.original_config = model_.description;
  return to;
}

void TrainingRun::Impl::give_up(const std::optional<Failure>& failure) {
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

void TrainingRun::Impl::give_up_on_data(int reporter) {
  if (!save_timer_->has_saved(trainer_.step())) {
    save();
  }
  ranks_.require_reported_by(reporter);
  throw Error(data_error_->kind(),
              fmt::format("{}; step {} is saved: restore the data, then --resume {}",
                          data_error_->what(), trainer_.step(), shell_word(folder_)));
}

std::string TrainingRun::Impl::newest_checkpoint() const {
  const std::string checkpoints = folder_ + "/checkpoints";
  const std::vector<train::SavedStep> saved = train::list_steps(checkpoints);
  return saved.empty() ? "" : checkpoints + "/" + saved.front().name;
}

}  // namespace trireme
