#include "train/step/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "model/experts.h"
#include "tensor/container_size.h"
#include "tensor/half.h"
#include "train/checkpoint/carried.h"
#include "train/clock.h"
#include "train/step/step_graph.h"
#include "trireme/error.h"
#include "trireme/model_dims.h"
#include "trireme/partition.h"

namespace trireme::train {
namespace {

TrainerOptions fused_for(const Device& device, TrainerOptions options) {
  options.fusions = device.fusions();
  return options;
}

bool has_state(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.values(), [&](const Value& value) {
    return value.origin == Origin::State && value.name == name;
  });
}

}  // namespace

Trainer::Trainer(const TrainerOptions& options, Device& device, Communicator* communicator)
    : Trainer(options,
              std::make_shared<const CompiledTraining>(compile_training(
                  fused_for(device, options), communicator == nullptr ? 0 : communicator->rank())),
              device, communicator) {}

Trainer::Trainer(const TrainerOptions& options, std::shared_ptr<const CompiledTraining> compiled,
                 Device& device, Communicator* communicator)
    : options_(options),
      compiled_(std::move(compiled)),
      device_(device),
      communicator_(communicator),
      scaling_(training_of(options, compiled_->model.graph).loss_scaling),
      execution_(std::make_unique<ShardedExecution>(compiled_->step, device_, communicator_)) {
  if (compiled_->update) {
    update_ = std::make_unique<ShardedExecution>(*compiled_->update, device_, communicator_);
  }
  for (const ModelParameter& parameter : model().parameters) {
    write(parameter, initial_values(parameter, options_.seed).raw());
  }
  if (scaling_) {
    write_number("loss_scale", scaling_->initial);
  }
}

Trainer::~Trainer() = default;

std::int64_t Trainer::parameter_count() const {
  std::int64_t count = 0;
  for (const ModelParameter& parameter : model().parameters) {
    count += parameter.type.shape.element_count();
  }
  return count;
}

Bytes Trainer::input_bytes() const {
  return size_of(graph().value(graph().find(model().input)).type);
}

Bytes Trainer::target_bytes() const {
  return size_of(graph().value(graph().find("targets")).type);
}

Bytes Trainer::memory() const {
  return {execution_->memory().count + (update_ ? update_->memory().count : 0)};
}

/// Writes a scalar input of the graph: f64 if the model is, else f32.
void Trainer::write_number(std::string_view name, double number) {
  if (model().dtype == DType::F64) {
    execution_->write(name, scalar_bytes(number));
  } else {
    const auto narrow = static_cast<float>(number);
    execution_->write(name, scalar_bytes(narrow));
  }
}

void Trainer::write_ahead(std::span<const std::byte> inputs, std::span<const std::byte> targets) {
  execution_->write_ahead(model().input, inputs);
  execution_->write_ahead("targets", targets);
  is_written_ahead_ = true;
}

StepResult Trainer::run_step(std::span<const std::byte> inputs, std::span<const std::byte> targets,
                             Trace* trace, const std::function<void()>& while_computing) {
  const double rate = this->rate();
  const std::int64_t step = step_ + 1;
  if (!std::exchange(is_written_ahead_, false)) {
    execution_->write(model().input, inputs);
    execution_->write("targets", targets);
  }
  execution_->write("step", scalar_bytes(step));
  write_number("learning_rate", rate);
  execution_->run(trace, while_computing);
  StepResult result;
  result.step = step;
  result.loss = execution_->number("loss");
  result.gradient_norm = execution_->number("grad_norm");
  result.rate = rate;
  result.finite = execution_->number("finite") == 1;
  if (scaling_) {
    result.overflowed = execution_->number("lowered") != 0;
    result.loss_scale = execution_->number("next_loss_scale");
  }
  if (result.overflowed) {
    is_written_ahead_ = false;  // the same batch is repeated
  }
  if (result.finite) {
    step_ = step;
    forward_is_current_ = false;
  }
  return result;
}

std::vector<ExpertLoad> Trainer::expert_loads() {
  const auto read_numbers = [&](const std::string& name) {
    const Shape& shape = graph().value(graph().output(name)).type.shape;
    std::vector<float> numbers(container_size(shape));
    execution_->read(name, std::as_writable_bytes(std::span(numbers)));
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  std::vector<ExpertLoad> loads;
  for (const Output& output : graph().outputs()) {
    if (output.name.starts_with(kExpertLoad)) {
      const std::string block = output.name.substr(kExpertLoad.size());
      const std::vector<double> drops = read_numbers(std::string(kExpertDrops) + block);
      loads.push_back({.block = std::stoll(block),
                       .load = read_numbers(output.name),
                       .drops = std::accumulate(drops.begin(), drops.end(), 0.0)});
    }
  }
  return loads;
}

/// The forward pass alone, with a copy of the current parameters. Deterministic.
ShardedExecution& Trainer::forward() {
  if (!forward_) {
    forward_ = std::make_unique<ShardedExecution>(compiled_->evaluation, device_, communicator_);
  }
  if (!forward_is_current_) {
    for (const ModelParameter& parameter : compiled_->evaluation_parameters) {
      (void)read(parameter);
      share(std::span(reinterpret_cast<std::uint8_t*>(staging_.data()), staging_.size()));
      forward_->write(parameter.name, staging_);
    }
    forward_is_current_ = true;
  }
  return *forward_;
}

double Trainer::evaluate(std::span<const std::byte> inputs, std::span<const std::byte> targets) {
  ShardedExecution& run = forward();
  run.write(model().input, inputs);
  run.write("targets", targets);
  run.run();
  return run.number("loss");
}

std::span<const std::byte> Trainer::read(const ModelParameter& parameter) {
  staging_.resize(container_size(size_of(parameter.type)));
  execution_->read(parameter.name, staging_);
  return staging_;
}

void Trainer::write(const ModelParameter& parameter, std::span<const std::byte> elements) {
  write_parameter(parameter.name, elements);
  if (const std::string master = master_of(parameter.name); has_state(state_graph(), master)) {
    std::vector<std::byte> wide(2 * elements.size());
    widen_halves(parameter.type.dtype, elements, wide.data());
    state_execution().write(master, wide);
  }
}

void Trainer::write_parameter(const std::string& name, std::span<const std::byte> elements) {
  execution_->write(name, elements);
  const auto in_update = [&](const Value& value) { return value.name == name; };
  if (update_ && std::ranges::any_of(trained(), in_update)) {
    update_->write(name, elements);
  }
  forward_is_current_ = false;
}

void Trainer::write_shard(const std::string& name, std::span<const std::byte> shard) {
  execution_->execution().write(name, shard);
  forward_is_current_ = false;
}

// Checkpoints.

TensorSet Trainer::tensors_of(Origin origin) {
  TensorSet set;
  const bool is_state = origin == Origin::State;
  const Graph& source = is_state ? state_graph() : graph();
  for (const ValueId id : source.with_origin(origin)) {
    const Value& value = source.value(id);
    set.specs.push_back({value.name, value.type.dtype, value.type.shape});
  }
  ShardedExecution* from = is_state ? &state_execution() : execution_.get();
  set.read = [this, from, specs = set.specs](std::size_t i) -> std::span<const std::byte> {
    staging_.resize(container_size(size_of(specs[i])));
    from->read(specs[i].name, staging_);
    return staging_;
  };
  return set;
}

CheckpointState Trainer::state(CheckpointInfo info) {
  info.step = step_;
  info.seed = options_.seed;
  return {.info = std::move(info),
          .model = tensors_of(Origin::Parameter),
          .optimizer = tensors_of(Origin::State)};
}

void Trainer::give_state() {
  for (const Origin origin : {Origin::Parameter, Origin::State}) {
    const TensorSet set = tensors_of(origin);
    for (std::size_t i = 0; i < set.specs.size(); ++i) {
      (void)set.read(i);
    }
  }
}

void Trainer::load(const SafetensorsFile& file, Origin origin) {
  const Graph& target = origin == Origin::State ? state_graph() : graph();
  for (const ValueId id : target.with_origin(origin)) {
    const Value& value = target.value(id);
    if (is_carried(value.name)) {
      execution_->write(value.name, carried_over(value, file.find(value.name)));
      continue;
    }
    const TensorView& tensor = file.at(value.name);
    if (tensor.spec.dtype != value.type.dtype || tensor.spec.shape != value.type.shape) {
      throw Error(ErrorKind::Input,
                  fmt::format("the checkpoint's {} is {}, this run's is {}; resume with the model "
                              "that it was saved from",
                              value.name, to_text(TensorType{tensor.spec.dtype, tensor.spec.shape}),
                              to_text(value.type)));
    }
    if (origin == Origin::State) {
      state_execution().write(value.name, tensor.bytes);
    } else {
      write_parameter(value.name, tensor.bytes);
    }
  }
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load(checkpoint.model, Origin::Parameter);
  if (!checkpoint.optimizer) {
    throw Error(ErrorKind::Input, fmt::format("{} has no optimizer state", checkpoint.path));
  }
  load(*checkpoint.optimizer, Origin::State);
  step_ = checkpoint.info.step;
  forward_is_current_ = false;
}

namespace {

/// A product of two square matrices of this size.
Program square_product(std::int64_t size, DType dtype) {
  GraphBuilder builder("peak");
  const TensorType type{dtype, {size, size}};
  const ValueId a = builder.parameter("a", type);
  const ValueId b = builder.parameter("b", type);
  builder.output("c", builder.add1("einsum", {a, b}, {{"equation", std::string("ik,kj->ij")}}));
  return make_program(builder.finish());
}

Seconds time_run(Execution& execution) {
  const Clock::time_point start = Clock::now();
  execution.run();
  return since(start);
}

/// Until three runs in a row bring no improvement, or for 200 ms.
Seconds shortest_run(Execution& execution) {
  const Clock::time_point begin = Clock::now();
  Seconds shortest = time_run(execution);
  for (int in_vain = 0; in_vain < 3 && Clock::now() - begin < std::chrono::milliseconds(200);) {
    const Seconds time = time_run(execution);
    in_vain = time.count < 0.99 * shortest.count ? 0 : in_vain + 1;
    shortest = std::min(shortest, time);
  }
  return shortest;
}

}  // namespace

double measure_peak_flops(Device& device, DType dtype) {
  constexpr Seconds kLongEnough{0.001};  // launch overhead is negligible, and the whole GPU is busy
  double best = 0;
  for (const std::int64_t size : {1024, 2048, 4096, 8192}) {
    Execution execution(square_product(size, dtype), device);
    const Seconds shortest = shortest_run(execution);
    best = std::max(best, 2.0 * std::pow(size, 3) / shortest.count);
    if (shortest > kLongEnough) {
      break;
    }
  }
  return best;
}

}  // namespace trireme::train
