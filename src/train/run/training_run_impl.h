// The implementation of TrainingRun, in several files: training_run.cpp (the step loop), training_workers.cpp (workers
// with their own models), training_survivors.cpp (workers that die), training_files.cpp (the run's folder, checkpoints,
// failures) and training_results.cpp (validation, samples, reports). One thread at a time; all ranks make the same calls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/run/loss_history.h"
#include "train/run/ranks.h"
#include "train/run/run_folder.h"
#include "train/run/run_lock.h"
#include "train/run/run_model.h"
#include "train/run/save_timer.h"
#include "train/run/validation_history.h"
#include "train/step/memory_plan.h"
#include "train/step/trainer.h"
#include "train/sync/make_strategy.h"
#include "train/sync/own_steps.h"
#include "train/sync/stretch.h"
#include "trireme/trace.h"
#include "trireme/train.h"

namespace trireme {

class TrainingRun::Impl {
 public:
  Impl(RunOptions&& options, World* world, std::shared_ptr<const train::CompiledTraining> compiled);

  [[nodiscard]] int rank() const { return ranks_.rank(); }
  [[nodiscard]] const RunFacts& facts() const { return facts_; }
  [[nodiscard]] std::int64_t step() const { return trainer_.step(); }
  [[nodiscard]] const std::string& run_folder() const { return folder_; }
  [[nodiscard]] const TrainData& data() const { return data_; }

  RunSummary train();
  StepReport run_step();
  std::optional<double> evaluate();
  std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, std::int64_t count,
                                   double temperature);
  std::string save();
  /// Rank 0 writes; the others first send it all their shards, because the files have a different order.
  void export_model(const std::string& folder);

 private:
  /// A step whose loss or gradients were not finite.
  struct Failure {
    train::StepResult result{};
    std::optional<NonFinite> found{};

    /// The model itself is not finite, or that is not known.
    [[nodiscard]] bool spoils_model() const { return !found || found->instruction < 0; }
  };

  /// What all ranks do before the next step.
  struct Agreed {
    bool stop = false;
    bool interrupted = false;  ///< stop because should_stop() asks for it
    bool save = false;
    bool save_best = false;
    int without_data = 0;  ///< the first rank that cannot read its data; count() if all can
  };

  template <class Callback, class... Arguments>
  void notify(const Callback& callback, const Arguments&... arguments) {
    if (callback && ranks_.leads()) {
      callback(arguments...);
    }
  }

  // Construction.

  [[nodiscard]] TrainData open_data();
  [[nodiscard]] std::shared_ptr<const train::CompiledTraining> compile() const;
  [[nodiscard]] train::TrainerOptions options_that_fit();

  // The step loop.

  [[nodiscard]] bool should_stop();
  /// Rank 0 only: the validation loss has not fallen for the configured number of validations.
  [[nodiscard]] bool out_of_patience() const;
  /// Collective.
  [[nodiscard]] Agreed agree();
  /// Takes all remaining steps.
  void run_steps();
  /// What follows the last step.
  [[nodiscard]] RunSummary finish(double seconds);
  /// Keeps the error if the batch cannot be read.
  void read_batch(const Batches& from, DataPosition at);
  /// Reads the next step's batch, if there is one, and starts to copy it to the device.
  void read_ahead();
  /// Makes the batch that was read ahead the current one; false if there is none.
  bool use_next();
  /// Trains on the batch that was read.
  StepReport train_on_batch();
  void wait_as_slow_worker(std::int64_t step) const;
  /// Repeats the step with half the loss scale while that may help.
  train::StepResult take_step(Trace* trace);

  // Workers with their own models.

  /// Runs these steps on all workers, each at its own pace within the strategy's bounds. Collective.
  train::StretchEnd run_workers(train::Stretch stretch);
  /// Records and shows a step, unless that was done before a worker died. Collective if it validates.
  StepReport publish(const StepReport& report);
  /// Takes this worker's step on its share of a batch. `first` is the step that position_ belongs to.
  train::ShareResult run_share(const train::BatchShare& share, std::int64_t first);

  // Workers that die.

  /// Whether the run can continue without the ranks that the error is about: parameter servers have the model.
  [[nodiscard]] bool survives(const CommError& error) const;
  /// Agrees with the other survivors on the last step that all have recorded, and continues from there. Collective over
  /// them. Throws CommError if another rank dies meanwhile, or this one must not continue.
  void continue_without_dead();
  /// Makes this rank the one that writes the run's folder, after the former one has died.
  void take_lead();

  // The run's folder.

  /// The run only exports a model, and leaves its folder as it is.
  [[nodiscard]] bool is_read_only() const;
  [[nodiscard]] std::string choose_folder() const;
  /// Takes possession of the folder, restores the checkpoint, writes what describes the run. Collective.
  void open_folder();
  /// Calls it on rank 0; if it throws there, this throws on all ranks. Collective.
  void lead(const std::function<void()>& call);
  void own_folder();
  void describe_run();
  void restore();
  [[nodiscard]] train::CheckpointState state();
  /// Saves a checkpoint there; returns its path, "" except on rank 0. Collective.
  std::string save_into(const std::string& folder, int keep);
  void save_best();
  /// The parameters with the lowest validation loss, if they were kept. Collective.
  void restore_best();
  void check_disk();
  [[nodiscard]] HuggingFaceExport export_to(const std::string& folder) const;
  /// Rank 0 reports errors.
  void check_export();
  /// Copies the tokenizer of the data, if it has one, so that the folder is complete without the original.
  void keep_tokenizer(const std::string& folder) const;

  // Failures.

  /// Training cannot recover from a non-finite loss. Saves the steps before it, if they are finite. Collective;
  /// `failure` is this rank's, if any.
  [[noreturn]] void give_up(const std::optional<Failure>& failure);
  /// Saves and throws the error of rank `reporter`, which cannot read its data. Collective.
  [[noreturn]] void give_up_on_data(int reporter);
  [[nodiscard]] std::string newest_checkpoint() const;

  // Results.

  /// On a worker's part of the validation data; without workers, on all.
  [[nodiscard]] double validation_loss(int part);
  /// Rank 0 writes the trace of all ranks, or of its own worker if each worker has its own model, and keeps it until
  /// its step is recorded. Collective.
  void write_trace(Trace trace);
  /// Breaks down the traced step once its time is known.
  void explain_traced_step(const StepReport& report);
  /// Records a step in the run folder, and validates if that is due. Collective then.
  StepReport record(StepReport report);
  void keep_recent(const StepReport& report);
  [[nodiscard]] std::string sample_text();
  [[nodiscard]] Seconds median_step_time();
  /// facts.json, for reports. Collective.
  void write_facts();
  /// summary.json, on rank 0, unless the run only exported.
  void write_summary(const RunSummary& summary);
  [[nodiscard]] RunSummary summarize(double seconds);

  RunOptions options_;
  TrainSettings settings_;
  train::Ranks ranks_;
  bool has_checkpoint_;  ///< to resume from
  NamedModel named_;
  TrainData data_;
  train::RunModel model_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<const train::CompiledTraining> compiled_;
  train::MemoryNeed memory_{};
  train::Trainer trainer_;
  std::string folder_;
  std::optional<train::RunLock> lock_;  ///< rank 0 only
  RunFacts facts_{};
  DataPosition position_{};
  DataPosition first_position_{};  ///< where this run starts
  std::vector<std::byte> inputs_;
  std::vector<std::byte> targets_;
  /// The next step's batch, if it was read while the device computed this one.
  struct NextBatch {
    std::vector<std::byte> inputs{};
    std::vector<std::byte> targets{};
    bool is_read = false;
  } next_{};
  std::optional<Error> data_error_;  ///< why the batch could not be read
  train::LossHistory losses_;
  std::vector<double> step_times_;
  std::int64_t overflows_ = 0;
  std::optional<Trace> trace_;  ///< rank 0 only: of `traced_step_`, which is not recorded yet
  std::int64_t traced_step_ = 0;
  std::optional<Waterfall> waterfall_;
  train::StepResult last_result_{};
  std::vector<ExpertLoad> last_experts_;
  std::unique_ptr<train::SyncStrategy> sync_;  ///< if each worker has its own model
  std::optional<Failure> failure_;             ///< this worker's first
  std::int64_t shares_ = 0;                    ///< of batches, that this rank has trained on
  train::OwnSteps own_steps_;                  ///< what this worker did lately
  std::int64_t recorded_ = 0;                  ///< the last step in losses_
  std::deque<StepReport> recent_;              ///< recorded lately, for a rank that takes the lead
  bool stopping_ = false;                      ///< should_stop() has returned true
  bool interrupted_ = false;                   ///< on some rank, so that the run ends here
  std::optional<train::StepRecord> record_;    ///< rank 0 only
  std::optional<train::SaveTimer> save_timer_;
  train::ValidationHistory validations_;  ///< rank 0 only
  std::int64_t validated_step_ = -1;      ///< the last step with a validation
  std::optional<double> last_validation_;
  bool improved_ = false;  ///< rank 0 only: the best checkpoint is not saved yet
};

}  // namespace trireme
