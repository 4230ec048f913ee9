// Trainer: a model on a device, or on the ranks of a plan, step by step. Builds the training graph, plans its
// memory, and runs it; knows what a step costs before the first.
//
// One thread at a time. Where there are several ranks, all make the same calls in the same order.
#pragma once

#include <cstdint>
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

namespace trireme::train {

struct StepResult {
  std::int64_t step = 0;  ///< from 1 on
  double loss = 0;
  double gradient_norm = 0;
  double rate = 0;
  bool finite = true;  ///< the loss and all gradients; if not, nothing was changed or counted
  /// Gradients did not fit under the loss scale, which is half of what it was now: the same step may be taken again.
  bool overflowed = false;
  std::optional<double> loss_scale{};  ///< of the step that follows; none: it is not scaled
};

class Trainer {
 public:
  /// Runs what the options compiled to; it has this rank's programs. The device must live as long, and so must the
  /// communicator, which a plan for several ranks needs.
  Trainer(const TrainerOptions& options, std::shared_ptr<const CompiledTraining> compiled,
          Device& device, Communicator* communicator = nullptr);
  /// Compiles for this rank alone. Throws as compile_training().
  Trainer(const TrainerOptions& options, Device& device, Communicator* communicator = nullptr);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  [[nodiscard]] const Model& model() const noexcept { return compiled_->model; }
  [[nodiscard]] const Graph& graph() const noexcept { return compiled_->step.graph(); }
  /// This rank's.
  [[nodiscard]] const Program& program() const noexcept { return execution_->program(); }
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] Bytes memory() const { return execution_->memory(); }
  [[nodiscard]] const FlopCount& flops() const noexcept { return compiled_->flops; }
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }

  /// The size of a batch, as the graph has it.
  [[nodiscard]] Bytes input_bytes() const;
  [[nodiscard]] Bytes target_bytes() const;

  /// See Execution.
  void set_overlap(bool overlap) { execution_->execution().set_overlap(overlap); }
  /// Bytes that this rank sends to others in a step, by op.
  [[nodiscard]] std::map<std::string, double> bytes_sent() const {
    return execution_->bytes_sent();
  }

  /// One step over a batch of so many bytes, all of it, whichever rank this is. With a trace: a span for each
  /// kernel.
  StepResult run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                      Trace* trace = nullptr);
  /// The same for a language model: tokens and targets [B,T].
  StepResult run_step(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                      Trace* trace = nullptr) {
    return run_step(std::as_bytes(tokens), std::as_bytes(targets), trace);
  }

  /// After a step that was not finite: takes it again, looking at everything, and says where it began.
  /// Nothing if it does not happen again; then this time the step was taken, but not counted.
  [[nodiscard]] std::optional<NonFinite> find_non_finite() {
    return execution_->execution().run_checked();
  }
  /// Looks at the parameters and the optimizer's state alone.
  [[nodiscard]] std::optional<NonFinite> find_non_finite_state() {
    return execution_->execution().find_non_finite_leaf();
  }

  /// The mean loss of a batch under the present parameters; nothing is changed. All ranks compute it together, and all
  /// get it.
  [[nodiscard]] double evaluate(std::span<const std::byte> inputs,
                                std::span<const std::byte> targets);
  [[nodiscard]] double evaluate(std::span<const std::int32_t> tokens,
                                std::span<const std::int32_t> targets) {
    return evaluate(std::as_bytes(tokens), std::as_bytes(targets));
  }
  /// Goes on with `prompt` for `count` tokens, each drawn from the model's distribution (temperature 0: the
  /// likeliest). Requires a language model in f32. All ranks get the same.
  [[nodiscard]] std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt,
                                                 std::int64_t count, double temperature,
                                                 std::uint64_t seed);

  /// The present elements of a parameter of the model, until the next call.
  [[nodiscard]] std::span<const std::byte> read(const ModelParameter& parameter);
  /// Others in their place, and in that of its master copy, if it has one.
  void write(const ModelParameter& parameter, std::span<const std::byte> elements);

  /// All that a checkpoint holds, by name. For rank 0, which saves it while the others call give_state().
  [[nodiscard]] CheckpointState state(CheckpointInfo info);
  void give_state();
  /// Goes on from it. Throws Error(Input) that names a tensor that is missing or of another type; what compression left
  /// may be otherwise (carried.h).
  void restore(const Checkpoint& checkpoint);

 private:
  void write_number(std::string_view name, double number);
  [[nodiscard]] TensorSet tensors_of(Origin origin);
  void load(const SafetensorsFile& file, Origin origin);
  ShardedExecution& forward();
  [[nodiscard]] bool leads() const {
    return communicator_ == nullptr || communicator_->world().rank() == 0;
  }
  /// What rank 0 has, on all ranks.
  template <class T>
  void share(std::span<T> elements) {
    if (communicator_ != nullptr) {
      communicator_->world().all().run(broadcast<T>(elements, 0));
    }
  }

  TrainerOptions options_;
  std::shared_ptr<const CompiledTraining> compiled_;
  Device& device_;
  Communicator* communicator_;
  std::optional<LossScaling> scaling_;
  std::unique_ptr<ShardedExecution> execution_;
  std::unique_ptr<ShardedExecution> forward_;  ///< for evaluation; takes memory when first needed
  bool forward_is_current_ = false;
  std::int64_t step_ = 0;
  std::vector<std::byte> staging_;
};

/// The FLOP/s of a large matrix product on the device: what MFU is measured against where the specification
/// is not known. Takes a fraction of a second.
[[nodiscard]] double measure_peak_flops(Device& device, DType dtype);

}  // namespace trireme::train
