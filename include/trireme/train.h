// Training a model, on one device or on the ranks of a plan:
//
//   trireme::RunOptions options;
//   options.settings.model = "gpt-mini";
//   options.settings.steps = 100;
//   options.plan.mesh = trireme::parse_mesh("data=2,tensor=2");
//   options.make_device = trireme::cpu_devices();
//   trireme::run_ranks(options, [](trireme::TrainingRun& run) { run.train(); });
//
// There are no communication calls: all ranks start with the same parameters, and the plan determines their
// communicate. Losses equal those of one device. A run keeps settings, plan, metrics and checkpoints in a folder, from
// which it resumes under any plan. examples/train.cpp is a complete program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm.h"
#include "trireme/device.h"
#include "trireme/error.h"
#include "trireme/host_costs.h"
#include "trireme/plan.h"
#include "trireme/tls_files.h"
#include "trireme/train_data.h"
#include "trireme/train_settings.h"
#include "trireme/units.h"
#include "trireme/waterfall.h"

namespace trireme {

/// Memory at the peak of a step, by category: "activation", "gaps".
struct MemoryPart {
  std::string what{};
  Bytes bytes{};
};
/// "3.1 MiB activation, 1.2 MiB parameter, …", largest first, omitting empty parts.
[[nodiscard]] std::string to_text(std::vector<MemoryPart> parts);

/// Bytes that rank 0 sends along `data` in a step, computed from the lower bounds of the collectives.
struct GradientTraffic {
  double sent = 0;
  double uncompressed = 0;  ///< under the same plan without compression
};

/// The predicted step time on this host, and how ranks spend it on average.
struct StepPrediction {
  Seconds step{};
  double compute = 0;  ///< share of the step in kernels
  double exposed = 0;  ///< waiting for communication
  double idle = 0;     ///< waiting for another rank
};

/// Facts known before the first step.
struct RunFacts {
  std::string model{};
  std::string weights{};  ///< describes the initial weights; "": random
  std::string data{};
  std::int64_t data_units = 0;        ///< of the training data, in `unit`; 0: it never repeats
  std::int64_t validation_units = 0;  ///< likewise
  std::string device{};
  std::string dtype{};      ///< "f32", "bf16 with f32 master weights"
  std::string optimizer{};  ///< with all its settings; see parse_optimizer()
  std::string rate{};       ///< the learning rate schedule, as --rate takes it
  std::string gradients{};  ///< "averaged over …": what gradients are averaged over
  std::int64_t parameters = 0;
  std::int64_t vocabulary = 0;  ///< of the data; 0: the data has no tokens
  std::int64_t first_step = 0;  ///< steps taken before this run started or resumed
  std::int64_t steps = 0;
  std::string unit = "tokens";  ///< the unit of a batch: "tokens" or "examples"
  std::int64_t units_per_step = 0;
  double model_flops = 0;     ///< per step: matrix products of the forward and backward pass
  double hardware_flops = 0;  ///< including recomputation
  /// The FLOP/s of all ranks together that MFU and HFU refer to: the specified dense peak of a known accelerator, else
  /// the rate of a large matrix product.
  double peak_flops = 0;
  double measured_flops = 0;  ///< of a large matrix product
  Bytes memory{};             ///< of the largest rank: the peak of a step, plus evaluation
  int memory_rank = 0;        ///< that rank
  std::vector<MemoryPart> memory_parts{};
  std::string ranks{};                                ///< "4 ranks: data=4"; "" on one device
  std::optional<GradientTraffic> gradient_traffic{};  ///< only if gradients are compressed
  std::optional<LossBounds> bounds{};
  std::optional<StepPrediction> predicted{};
  std::string not_predicted{};  ///< why there is no prediction, and what to do; "" if there is one
  std::vector<std::string> notes{};  ///< options without effect, ranks that will idle
};

/// Steps that the slowest and the fastest worker had completed when they started a step.
struct SyncClocks {
  std::int64_t slowest = 0;
  std::int64_t fastest = 0;
};

/// How far apart workers with their own models (--sync) were in a step.
struct SyncState {
  /// How many steps the slowest worker was behind the fastest; with hogwild, how many updates of others a worker missed.
  std::int64_t staleness = 0;
  /// How far synchronization moved the models, relative to their norm. If it averages over all workers, this is their
  /// root mean square distance from the average.
  double spread = 0;
  std::optional<SyncClocks> clocks{};  ///< on a parameter server
};

/// How a step's tokens were distributed over the experts of a block.
struct ExpertLoad {
  std::int64_t block = 0;      ///< counts from 0
  std::vector<double> load{};  ///< choices of each expert
  double drops = 0;            ///< choices that were dropped because their expert was full

  /// The largest load relative to the mean: 1 if all are equal.
  [[nodiscard]] double imbalance() const;
  /// As a share of all choices.
  [[nodiscard]] double dropped() const;
};

struct StepReport {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  Seconds step_time{};
  std::optional<double> loss_scale{};  ///< after the step, if the loss is scaled
  std::optional<double> validation{};  ///< if measured after this step
  std::optional<SyncState> sync{};     ///< if each worker has its own model
  /// One for each block with experts; empty if each worker has its own model.
  std::vector<ExpertLoad> experts{};
};

/// The lowest validation loss of a run.
struct BestValidation {
  std::int64_t step = 0;
  double loss = 0;
};

struct RunSummary {
  std::int64_t step = 0;
  std::optional<double> first_loss{};  ///< of the first step, if any step ran
  std::optional<double> loss{};        ///< mean of the last steps
  std::optional<double> validation{};
  Seconds time{};
  Seconds step_time{};  ///< median of all steps; 0 if none ran
  double units_per_second = 0;
  std::string run_folder{};
  std::string exported{};  ///< the folder, if the model was exported
  std::string sample{};
  bool tensorboard = false;              ///< event files were written
  bool traced = false;                   ///< trace.json was written
  std::optional<Waterfall> waterfall{};  ///< of the traced step, if this run traced one
  bool interrupted = false;
  std::optional<BestValidation> best{};  ///< if the run kept its checkpoint or could stop early
  std::string best_folder{};             ///< where its checkpoint is, if it was kept
  bool stopped_early = false;            ///< the validation loss had stopped falling (patience)
  std::int64_t compilations = 0;      ///< of graphs, by this process: the step and its evaluation
  std::int64_t overflows = 0;         ///< steps repeated with a smaller loss scale
  std::vector<ExpertLoad> experts{};  ///< of the last step, see StepReport
};

[[nodiscard]] double mfu(const RunFacts& facts, Seconds step_time);
[[nodiscard]] double hfu(const RunFacts& facts, Seconds step_time);
/// A line of metrics.jsonl.
[[nodiscard]] std::string to_json(const RunFacts& facts, const StepReport& report);
/// The last line of `trireme train --json`.
[[nodiscard]] std::string to_json(const RunFacts& facts, const RunSummary& summary);

/// Callbacks on rank 0 as the run proceeds. Any of them may be empty.
struct RunObserver {
  std::function<void(const RunFacts&)> begin{};
  std::function<void(const RunFacts&, const StepReport&)> step{};
  std::function<void(const RunFacts&, const RunSummary&)> end{};
  std::function<void(const std::string&)> warning{};
};

/// The parameter servers of a run with --sync ps:….
struct RunServers {
  std::string address{};  ///< of a running coordinator; "": start servers on this machine
  TlsFiles etcd_tls{};    ///< if the address is that of an etcd, etcd+tls://…
  std::string secret{};   ///< of the servers at that address
  bool encrypt = false;   ///< they use TLS
  Seconds lease{2};       ///< the same as theirs
  int count = 0;          ///< servers to start; 0: one for each worker
  int replicas = 1;       ///< number of servers that hold each part of the model
};

/// How to run the ranks of a plan on one machine. Hogwild needs threads.
enum class RankKind : std::uint8_t { Processes, Threads };
[[nodiscard]] std::string_view to_text(RankKind kind);

struct RunOptions {
  TrainSettings settings{};
  /// A model described in code; if absent, settings.model names it.
  std::optional<AnyModelConfig> model{};
  /// Opens the program's own data, identically on every rank; if empty, open_train_data() is used.
  std::function<TrainData(const TrainSettings&, const AnyModelConfig&)> open_data{};
  Plan plan{};  ///< its `recompute` overrides the one in the settings
  DeviceFactory make_device{};
  std::string run_folder{};  ///< for a new run; "": runs/MODEL-NUMBER
  /// Folder of the run to resume; start with its load_settings(). A run without a checkpoint starts over.
  std::string resume{};
  std::string export_folder{};          ///< train() exports the model into it
  std::optional<Bytes> memory_limit{};  ///< per rank; if absent, the machine's available memory
  /// Space left on the disk of a folder; if empty, that of the file system.
  std::function<Bytes(const std::string& folder)> free_disk_space{};
  RankKind rank_kind = RankKind::Processes;
  RunServers servers{};
  /// How long a data-parallel worker sleeps before one of its steps; both count from 0. See straggler.h.
  std::function<Seconds(int worker, std::int64_t step)> delay{};
  /// The costs measured by `trireme probe`; with them, the run predicts its step time.
  std::optional<HostCosts> host{};
  RunObserver observer{};
  /// Called on every rank when data, model and memory are known to be in order, just before the run creates or opens its
  /// folder. From then on there is something to save.
  std::function<void()> on_ready{};
  /// Called on every rank before each step; if it returns true on any rank, train() saves and ends early, without a last
  /// validation and a sample.
  std::function<bool()> should_stop{};
};

/// The plan of the run in a folder; one device if it has none. Throws Error(Input) if it is not a plan.
[[nodiscard]] Plan load_plan(const std::string& run_folder);

/// Everything wrong with the options, each with a fix. Opens neither data nor model.
[[nodiscard]] std::vector<std::string> problems(const RunOptions& options);

/// Thrown on a rank when another rank throws the error with the actual reason. Programs need not report it.
class ReportedElsewhere : public Error {
 public:
  ReportedElsewhere() : Error(ErrorKind::Peer, "another rank reports why the run ended") {}
};

namespace train {
struct CompiledTraining;  ///< the compiled model and plan, shared by the ranks of one machine
}

/// A run as one rank sees it. All ranks make the same calls in the same order; one thread at a time.
class TrainingRun {
 public:
  /// Opens model and data, compiles, allocates memory, and restores the checkpoint if the run resumes. Without a world,
  /// runs on one device. The world must have as many ranks as the plan's mesh and must outlive the run. `compiled` is
  /// the compiled form of the options, if already known. Throws Error(Usage or Input) on invalid options, and
  /// Error(System) if memory is insufficient, listing options that fit. An error that concerns all ranks is thrown on
  /// one; the others throw ReportedElsewhere.
  explicit TrainingRun(RunOptions options, World* world = nullptr,
                       std::shared_ptr<const train::CompiledTraining> compiled = nullptr);
  ~TrainingRun();
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] const RunFacts& facts() const;
  /// Steps taken so far, including those before the run resumed.
  [[nodiscard]] std::int64_t step() const;
  [[nodiscard]] const std::string& run_folder() const;

  /// Runs all remaining steps, with checkpoints and validation as configured; then saves and exports the model, or the
  /// best one if that was kept. Throws
  /// Error(Input) if the loss becomes non-finite, naming the tensor where that began; earlier steps are saved.
  RunSummary train();
  /// One step. Throws as train().
  StepReport run_step();

  /// The mean loss on the validation data; nothing if no data was set aside.
  [[nodiscard]] std::optional<double> evaluate();
  /// Continues `prompt` by `count` tokens drawn from the model's distribution; temperature 0 takes the likeliest.
  /// Requires a language model in f32.
  [[nodiscard]] std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt,
                                                 std::int64_t count, double temperature = 0.8);
  /// Decodes tokens to text, if the data is text.
  [[nodiscard]] std::string text_of(std::span<const std::int32_t> tokens) const;

  /// Saves a checkpoint and returns its path ("" except on rank 0). A crash at any moment leaves earlier checkpoints
  /// intact. Throws as train() if a parameter is not finite.
  std::string save();
  /// Writes config.json and safetensors for Hugging Face. Throws Error(Usage) if the model has no such format or the
  /// folder is not empty. Collective; rank 0 writes.
  void export_model(const std::string& folder);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Opens the run on every rank of its plan and calls `body` there: in this process if the plan has one device,
/// otherwise in forked processes or threads. Compiles once for all ranks. Throws the only rank's error, or Error(Peer or Input)
/// that refers to a rank's message.
void run_ranks(RunOptions options, const std::function<void(TrainingRun& run)>& body);

/// The same for one rank of a world started by another program; an error in the options is thrown on one rank.
void run_rank(const RunOptions& options, World& world,
              const std::function<void(TrainingRun& run)>& body);

}  // namespace trireme
