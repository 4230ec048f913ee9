// Trainer: trains a model step by step on a device or the ranks of a plan. Builds the training graph, plans its memory,
// and runs it; the cost of a step is known before the first. One thread at a time; all ranks make the same calls in the
// same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/step/sharded_execution.h"
#include "train/step/step_graph.h"
#include "trireme/device.h"
#include "trireme/execution.h"
#include "trireme/train.h"

namespace trireme::train {

struct StepResult {
  std::int64_t step = 0;  ///< counts from 1
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  bool finite = true;  ///< loss and gradients; if false, nothing was changed or counted
  /// Gradients overflowed under the loss scale, which has been halved: the step may be retried.
  bool overflowed = false;
  std::optional<double> loss_scale{};  ///< for the next step; none if the loss is not scaled
};

/// A parameter that the loss depends on.
struct TrainedParameter {
  std::string name{};
  std::size_t elements = 0;
  double decay = 0;
};

class Trainer {
 public:
  /// Runs the compiled options, which include this rank's programs. The device and the communicator must outlive the
  /// trainer; a plan for several ranks requires a communicator.
  Trainer(const TrainerOptions& options, std::shared_ptr<const CompiledTraining> compiled,
          Device& device, Communicator* communicator = nullptr);
  /// Compiles for this rank only. Throws as compile_training().
  Trainer(const TrainerOptions& options, Device& device, Communicator* communicator = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  [[nodiscard]] const Model& model() const noexcept { return compiled_->model; }
  [[nodiscard]] const Graph& graph() const noexcept { return compiled_->step.graph(); }
  /// This rank's program.
  [[nodiscard]] const Program& program() const noexcept { return execution_->program(); }
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] Bytes memory() const;
  [[nodiscard]] const FlopCount& flops() const noexcept { return compiled_->flops; }
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  /// The learning rate of the next step.
  [[nodiscard]] double rate() const { return options_.rate.at(step_); }

  /// Sizes of a batch's inputs and targets.
  [[nodiscard]] Bytes input_bytes() const;
  [[nodiscard]] Bytes target_bytes() const;

  /// See Execution.
  void set_overlap(bool overlap) { execution_->execution().set_overlap(overlap); }
  /// Bytes that this rank sends in a step, by op.
  [[nodiscard]] std::map<std::string, double> bytes_sent() const {
    return execution_->bytes_sent();
  }

  /// Runs one step. Every rank passes the whole batch. A trace gets one span per kernel. `while_computing` is called
  /// while the device computes.
  StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                      Trace* trace = nullptr,
                      const std::function<void()>& while_computing = nullptr);
  /// Starts to copy the batch of the next step; the next run_step() must get the same one. Call it from
  /// `while_computing`.
  void write_ahead(std::span<const std::byte> inputs, std::span<const std::byte> targets);
  /// The same for a language model: tokens and targets [B,T].
  StepResult run_step(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                      Trace* trace = nullptr) {
    return run_step(std::as_bytes(tokens), std::as_bytes(targets), trace);
  }

  /// How the last step's tokens were distributed, for each block with experts. Complete on rank 0 only. Collective.
  [[nodiscard]] std::vector<ExpertLoad> expert_loads();

  // With TrainerOptions::split_update a step has two halves, between which workers may reduce their gradients. Requires
  // f32 parameters on one device.

  /// Computes the concatenated gradients of all parameters, and the loss, without taking a step.
  double compute_gradients(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                           std::span<float> gradients, Trace* trace = nullptr);
  /// Elements of those gradients.
  [[nodiscard]] std::size_t gradient_count() const;
  /// Takes a step with these gradients.
  StepResult apply_gradients(std::span<const float> gradients, double loss);
  /// Takes a step that another worker has computed: `parameters` are its updated parameters, in the same order.
  void adopt_step(std::span<const float> parameters);
  /// The current parameters, in the same order.
  void read_trained(std::span<float> parameters) const;
  void write_trained(std::span<const float> parameters);
  /// What those parameters are, in that order.
  [[nodiscard]] std::vector<TrainedParameter> trained_parameters() const;
  [[nodiscard]] const TrainingOptions& training() const noexcept { return options_.training; }
  /// The optimizer's state of all of them with this prefix, such as "m", in the same order.
  void read_state(std::string_view prefix, std::span<float> state) const;
  void write_state(std::string_view prefix, std::span<const float> state);

  /// After a non-finite step: repeats it, checking every value, and reports where the first non-finite one appeared.
  /// Returns nothing if all values were finite this time; the step then took effect but is not counted.
  [[nodiscard]] std::optional<NonFinite> find_non_finite() {
    return execution_->execution().run_checked();
  }
  /// Checks only the parameters and the optimizer's state.
  [[nodiscard]] std::optional<NonFinite> find_non_finite_state() {
    return execution_->execution().find_non_finite_leaf();
  }

  /// The mean loss of a batch with the current parameters; changes nothing. Collective: all ranks get the result.
  [[nodiscard]] double evaluate(std::span<const std::byte> inputs,
                                std::span<const std::byte> targets);
  [[nodiscard]] double evaluate(std::span<const std::int32_t> tokens,
                                std::span<const std::int32_t> targets) {
    return evaluate(std::as_bytes(tokens), std::as_bytes(targets));
  }
  /// Continues `prompt` by `count` tokens drawn from the model's distribution (temperature 0 takes the likeliest).
  /// Requires a language model in f32. All ranks get the same tokens.
  [[nodiscard]] std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt,
                                                 std::int64_t count, double temperature,
                                                 std::uint64_t seed);

  /// The current elements of a parameter, valid until the next call.
  [[nodiscard]] std::span<const std::byte> read(const ModelParameter& parameter);
  /// Replaces the elements of a parameter and of its master copy, if any.
  void write(const ModelParameter& parameter, std::span<const std::byte> elements);

  /// This rank's shard of a parameter or state, as its program has it. Writing a parameter does not write its master
  /// copy.
  void read_shard(const std::string& name, std::span<std::byte> shard) const {
    execution_->execution().read(name, shard);
  }
  void write_shard(const std::string& name, std::span<const std::byte> shard);

  /// Continues after another number of steps: the next step has the learning rate and the number that follow.
  void set_step(std::int64_t step) { step_ = step; }

  /// Everything a checkpoint stores, by name. For rank 0, which saves it while the others call give_state().
  [[nodiscard]] CheckpointState state(CheckpointInfo info);
  void give_state();
  /// Restores a checkpoint. Throws Error(Input) naming a tensor that is missing or has another type; compression state
  /// may differ (see carried.h).
  void restore(const Checkpoint& checkpoint);

 private:
  void write_number(std::string_view name, double number);
  [[nodiscard]] TensorSet tensors_of(Origin origin);
  void load(const SafetensorsFile& file, Origin origin);
  ShardedExecution& forward();
  /// Where the optimizer's state is, and its graph.
  [[nodiscard]] ShardedExecution& state_execution() { return update_ ? *update_ : *execution_; }
  [[nodiscard]] const Graph& state_graph() const {
    return update_ ? compiled_->update->graph() : graph();
  }
  void write_parameter(const std::string& name, std::span<const std::byte> elements);
  /// Reads the concatenated updated parameters, which the step does not have yet.
  void read_updated(std::span<float> parameters) const;
  /// The parameters that the split update trains.
  [[nodiscard]] std::vector<Value> trained() const;
  [[nodiscard]] bool leads() const {
    return communicator_ == nullptr || communicator_->rank() == 0;
  }
  /// Broadcasts from rank 0.
  template <class T>
  void share(std::span<T> elements) {
    if (communicator_ != nullptr) {
      communicator_->all().run(broadcast<T>(elements, 0));
    }
  }

  TrainerOptions options_;
  std::shared_ptr<const CompiledTraining> compiled_;
  Device& device_;
  Communicator* communicator_;
  std::optional<LossScaling> scaling_;
  std::unique_ptr<ShardedExecution> execution_;
  std::unique_ptr<ShardedExecution> update_;   ///< if it is split from the step
  std::unique_ptr<ShardedExecution> forward_;  ///< for evaluation; allocated on first use
  bool forward_is_current_ = false;
  bool is_written_ahead_ = false;  ///< the next step's batch
  std::int64_t step_ = 0;
  std::vector<std::byte> staging_;
};

/// Measured FLOP/s of a large matrix product on the device: the reference for MFU when the specification is not known.
/// Takes a fraction of a second.
[[nodiscard]] double measure_peak_flops(Device& device, DType dtype);

}  // namespace trireme::train
