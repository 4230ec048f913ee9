// Training a model, on one device or on the ranks of a plan:
//
//   trireme::RunOptions options;
//   options.settings.model = "gpt-mini";
//   options.settings.steps = 100;
//   options.plan.mesh = trireme::parse_mesh("data=2,tensor=2");
//   options.make_device = trireme::cpu_devices();
//   trireme::run_ranks(options, [](trireme::TrainingRun& run) { run.train(); });
//
// There are no communication calls: all ranks start with the same parameters, and the plan decides what they exchange.
// Losses equal those of one device. A run keeps settings, plan, metrics and checkpoints in a folder, from which it
// resumes on any plan. examples/train.cpp is a whole program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm.h"
#include "trireme/device.h"
#include "trireme/error.h"
#include "trireme/plan.h"
#include "trireme/train_data.h"
#include "trireme/train_settings.h"
#include "trireme/units.h"

namespace trireme {

/// Memory at the peak of a step, by what it holds: "activation", "gaps".
struct MemoryPart {
  std::string what{};
  Bytes bytes{};
};
/// "3.1 MiB activation, 1.2 MiB parameter, …", the largest first, without empty ones.
[[nodiscard]] std::string to_text(std::vector<MemoryPart> parts);

/// Bytes that rank 0 sends along `data` in a step, by the lower bounds of collectives.
struct GradientTraffic {
  double sent = 0;
  double uncompressed = 0;  ///< of the same plan without compression
};

/// What is known before the first step.
struct RunFacts {
  std::string model{};
  std::string weights{};  ///< the initial ones; "": random
  std::string data{};
  std::string device{};
  std::int64_t parameters = 0;
  std::int64_t vocabulary = 0;  ///< of the data; 0: it has no tokens
  std::int64_t first_step = 0;  ///< steps taken before this run started or resumed
  std::int64_t steps = 0;
  std::string unit = "tokens";  ///< of a batch; or "examples"
  std::int64_t units_per_step = 0;
  double model_flops = 0;     ///< of a step: matrix products of the forward and backward pass
  double hardware_flops = 0;  ///< with what is recomputed
  double peak_flops = 0;      ///< FLOP/s of a large matrix product, measured, on all ranks
  Bytes memory{};             ///< peak of rank 0
  std::vector<MemoryPart> memory_parts{};
  std::string ranks{};                                ///< "4 ranks: data=4"; "" on one device
  std::optional<GradientTraffic> gradient_traffic{};  ///< if gradients are compressed
  std::optional<LossBounds> bounds{};
};

struct StepReport {
  std::int64_t step = 0;  ///< from 1 on
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  Seconds step_time{};
  std::optional<double> loss_scale{};  ///< after the step, where the loss is scaled
  std::optional<double> validation{};  ///< if it was measured after this step
};

struct RunSummary {
  std::int64_t step = 0;
  std::optional<double> first_loss{};  ///< of the first step, if there was one
  std::optional<double> loss{};        ///< the mean of the last steps
  std::optional<double> validation{};
  Seconds time{};
  double units_per_second = 0;
  std::string run_folder{};
  std::string exported{};  ///< the folder, if the model was exported
  std::string sample{};
  bool tensorboard = false;  ///< event files were written
  bool traced = false;       ///< trace.json was written
  bool interrupted = false;
  std::int64_t compilations = 0;  ///< of graphs, by this process: the step and its evaluation
  std::int64_t overflows = 0;     ///< steps repeated with a smaller loss scale
};

[[nodiscard]] double mfu(const RunFacts& facts, Seconds step_time);
[[nodiscard]] double hfu(const RunFacts& facts, Seconds step_time);
/// A line of metrics.jsonl.
[[nodiscard]] std::string to_json(const RunFacts& facts, const StepReport& report);

/// Called on rank 0, as the run proceeds. Each may be empty.
struct RunObserver {
  std::function<void(const RunFacts&)> begin{};
  std::function<void(const RunFacts&, const StepReport&)> step{};
  std::function<void(const RunFacts&, const RunSummary&)> end{};
  std::function<void(const std::string&)> warning{};
};

/// Makes the device of a rank; `ranks` of them share this machine. See cpu_devices().
using DeviceFactory = std::function<std::unique_ptr<Device>(int ranks)>;

struct RunOptions {
  TrainSettings settings{};
  /// A model described in code; none: what settings.model names.
  std::optional<AnyModelConfig> model{};
  /// Opens the program's own data, on every rank alike; empty: open_train_data().
  std::function<TrainData(const TrainSettings&, const AnyModelConfig&)> open_data{};
  Plan plan{};  ///< its `recompute` replaces that of the settings
  DeviceFactory make_device{};
  std::string run_folder{};  ///< for a new run; "": runs/MODEL-NUMBER
  std::string resume{};  ///< the folder of the run to resume; settings begin with load_settings()
  std::string export_folder{};          ///< train() exports the model into it; one device only
  std::int64_t save_every = 0;          ///< steps between checkpoints; 0: one at the end
  std::int64_t validate_every = 0;      ///< steps between validations; 0: one at the end
  bool tensorboard = false;             ///< also write event files for TensorBoard
  std::optional<Bytes> memory_limit{};  ///< per rank; none: what the machine has left
  RunObserver observer{};
  /// Asked on every rank before a step; true on any of them: train() saves and ends early.
  std::function<bool()> should_stop{};
};

/// What is wrong with the options, each with what to do. Opens no data, and no model.
[[nodiscard]] std::vector<std::string> problems(const RunOptions& options);

/// Ends a rank when another rank throws the error with the reason. Programs need not show it.
class ReportedElsewhere : public Error {
 public:
  ReportedElsewhere() : Error(ErrorKind::Peer, "another rank reports why the run ended") {}
};

/// What a model and plan compile to, shared by the ranks of one machine.
namespace train {
struct CompiledTraining;
}

/// A run as one rank sees it. All ranks make the same calls in the same order; one thread at a time.
class TrainingRun {
 public:
  /// Opens model and data, compiles, takes memory, and restores the checkpoint if it resumes. Without a world: on one
  /// device. The world has as many ranks as the plan's mesh, and must outlive the run. `compiled` is what the options
  /// compile to, if that is known. Throws Error(Usage or Input) on options that cannot be, Error(System) if memory does
  /// not suffice, with options that fit. What concerns all ranks is thrown on one; the others throw ReportedElsewhere.
  explicit TrainingRun(RunOptions options, World* world = nullptr,
                       std::shared_ptr<const train::CompiledTraining> compiled = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] const RunFacts& facts() const;
  /// Steps taken so far, before it resumed too.
  [[nodiscard]] std::int64_t step() const;
  [[nodiscard]] const std::string& run_folder() const;

  /// All remaining steps, with checkpoints and validation as the options say; then saves and exports. Throws
  /// Error(Input) if the loss becomes non-finite, with the tensor where that began; earlier steps are saved.
  RunSummary train();
  /// One step. Throws as train().
  StepReport run_step();

  /// The mean loss on validation data; nothing if none was set aside.
  [[nodiscard]] std::optional<double> evaluate();
  /// Continues `prompt` by `count` tokens drawn from the model's distribution; temperature 0 takes the likeliest.
  /// Requires a language model in f32.
  [[nodiscard]] std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt,
                                                 std::int64_t count, double temperature = 0.8);
  /// As text, if the data is text.
  [[nodiscard]] std::string text_of(std::span<const std::int32_t> tokens) const;

  /// Saves a checkpoint, and returns its path ("" except on rank 0). A crash at any moment loses none. Throws as train()
  /// if a parameter is not finite.
  std::string save();
  /// Writes config.json and safetensors for Hugging Face's programs. Throws Error(Usage) if the model has no such form
  /// or the folder is not empty. One device only.
  void export_model(const std::string& folder);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Opens the run on every rank of its plan and calls `body` there: in this process if the plan has one device, else in
/// processes forked from it. Compiles once for all. Throws what the only rank throws, or Error(Peer or Input) that
/// refers to the message of a rank.
void run_ranks(RunOptions options, const std::function<void(TrainingRun& run)>& body);

/// The same as one rank of a world that another program has started; an error in the options is thrown on one rank.
void run_rank(const RunOptions& options, World& world,
              const std::function<void(TrainingRun& run)>& body);

}  // namespace trireme
