// The settings of a training run, as data. A run stores them in its folder so that it can resume. Callable from any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/model_kinds.h"
#include "trireme/program.h"  // before training.h: else its Optimizer is shadowed by a category
#include "trireme/training.h"
#include "trireme/units.h"
#include "trireme/valid.h"

namespace trireme {

/// When a run saves a checkpoint, besides at its end. If both are given, whichever comes first applies.
struct SaveInterval {
  std::int64_t steps = 0;  ///< save every this many steps; 0: not by steps
  Seconds time{};          ///< save this long after the last checkpoint; 0: not by time
};
/// Reads "200" (steps), "15min", "200,15min", or "0" (only at the end). Throws Error(Usage).
[[nodiscard]] SaveInterval parse_save_interval(std::string_view text);

/// Messages refer to a setting by its `trireme train` option: --batch, --rate.
struct TrainSettings {
  std::string model = "gpt-mini";  ///< a preset, or the path of a config.json or its folder
  std::string weights{};  ///< initial weights: safetensors; "": random, or those next to the model
  /// Files, folders, or "-" for standard input; none: generated data
  std::vector<std::string> data{};
  /// The same for validation; none: the fraction `validation` of the data
  std::vector<std::string> validation_data{};
  /// A tokenizer.json; "": the one in the model's folder, or one byte per token.
  std::string tokenizer{};
  /// Number of tokens; 0: the model's, the tokenizer's, or for a preset on token files GPT-2's or Llama 3's
  std::int64_t vocabulary = 0;
  std::int64_t batch = 16;
  std::int64_t length = 128;
  std::int64_t steps = 750;         ///< of the whole run
  std::string optimizer = "adamw";  ///< see parse_optimizer
  /// The learning rate: a schedule, or its peak ("3e-4"); "": a peak that suits the model's width and the optimizer.
  /// Without a schedule: warmup and cosine over the steps.
  std::string rate{};
  double clip = 1.0;  ///< maximum global gradient norm; 0: no clipping
  double dropout = 0.0;
  std::string experts{};     ///< see parse_experts; "": as in the model
  double validation = 0.05;  ///< fraction of the data, without validation_data
  std::string dtype = "f32";
  /// For bf16 and f16: the optimizer updates f32 master weights; or "none".
  std::string master = "f32";
  double loss_scale = LossScaling{}.initial;  ///< for f16: the initial loss scale
  std::string recompute = "none";             ///< see parse_recompute; a plan overrides it
  std::uint64_t seed = 1;
  std::string sync = "allreduce";    ///< how data-parallel workers synchronize: see parse_sync
  std::string save_every = "15min";  ///< see parse_save_interval
  std::int64_t keep = 3;             ///< number of checkpoints to keep
  std::int64_t validate_every = 0;   ///< steps between validations; 0: one at the end
  bool keep_best = false;            ///< also keep the checkpoint with the lowest validation loss
  /// Validations without a new lowest loss before the run stops; 0: never.
  std::int64_t patience = 0;
  bool tensorboard = false;  ///< also write event files for TensorBoard
  // Execution. `trireme train` converts these to RunOptions, and a run stores them; other programs may ignore them.
  std::int64_t threads = 0;           ///< compute threads per rank; 0: all cores
  std::string device = "auto";        ///< "auto", "cpu", "cuda" or "cuda:N"
  std::string gpu_exchange = "auto";  ///< see parse_cuda_exchange
  bool deterministic = false;         ///< the same bits in every run on the same GPUs
  std::string memory_limit{};         ///< of a rank; "": the machine's available memory
  bool encrypt = false;               ///< traffic between hosts

  friend bool operator==(const TrainSettings&, const TrainSettings&) = default;
};

/// Everything wrong with the settings, each with a fix. Opens no files and does not check `model`.
[[nodiscard]] std::vector<std::string> problems(const TrainSettings& settings);

/// Reads "8,per-token=2,every=2,gate=softmax-first,capacity=1.25,balance=0.01,per=batch,shared=1,noise" into a model's
/// mixture of experts: their number, then settings by name, in any order. every=2 puts experts into every second block,
/// gate is softmax-first or top-k-first, capacity=0 drops nothing, per=microbatch balances each micro-batch, noise is
/// on or off. Settings not named stay as they are. Throws Error(Usage) with the reason.
void parse_experts(std::string_view text, ModelConfig& config);

/// JSON; parse_train_settings reads it back. Throws Error(Input) that begins with `what`.
[[nodiscard]] std::string to_text(const TrainSettings& settings);
[[nodiscard]] TrainSettings parse_train_settings(std::string_view text, std::string_view what);

/// The settings of the run in a folder. Throws Error(Usage) if there is none.
[[nodiscard]] TrainSettings load_settings(const std::string& run_folder);

/// Whether `name` is a setting: "steps", "rate".
[[nodiscard]] bool is_setting(std::string_view name);
[[nodiscard]] std::vector<std::string> setting_names();

/// For a resumed run: its own settings, with those listed in `names` taken from `given`. Throws Error(Usage) naming a
/// setting that cannot change once a run has started.
[[nodiscard]] TrainSettings resumed_settings(const TrainSettings& own, const TrainSettings& given,
                                             const std::vector<std::string>& names);

}  // namespace trireme
