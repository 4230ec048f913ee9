// Steps whose update is split from the gradients.
#include <fmt/format.h>

#include "base/check.h"
#include "tensor/container_size.h"
#include "train/step/trainer.h"

namespace trireme::train {

std::vector<Value> Trainer::trained() const {
  TRIREME_CHECK(compiled_->update.has_value(), "the trainer's update is not split from its step");
  const Graph& update = compiled_->update->graph();
  std::vector<Value> values;
  for (const ValueId id : update.with_origin(Origin::Parameter)) {
    values.push_back(update.value(id));
  }
  return values;
}

std::size_t Trainer::gradient_count() const {
  std::size_t count = 0;
  for (const Value& value : trained()) {
    count += container_size(value.type.shape);
  }
  return count;
}

namespace {

/// Takes the elements of a value from the front of a span.
template <class T>
std::span<T> take_front(std::span<T>& elements, const Value& value) {
  const std::size_t count = container_size(value.type.shape);
  const std::span<T> front = elements.first(count);
  elements = elements.subspan(count);
  return front;
}

}  // namespace

double Trainer::compute_gradients(std::span<const std::byte> inputs,
                                  std::span<const std::byte> targets, std::span<float> gradients,
                                  Trace* trace) {
  const std::int64_t step = step_ + 1;
  execution_->write(model().input, inputs);
  execution_->write("targets", targets);
  for (const ValueId id : graph().with_origin(Origin::Input)) {
    if (graph().value(id).name == "step") {  // for dropout
      execution_->write("step", std::as_bytes(std::span(&step, 1)));
    }
  }
  execution_->run(trace);
  for (const Value& value : trained()) {
    execution_->execution().read(gradient_of(value.name),
                                 std::as_writable_bytes(take_front(gradients, value)));
  }
  return execution_->number("loss");
}

StepResult Trainer::apply_gradients(std::span<const float> gradients, double loss) {
  StepResult result;
  result.step = step_ + 1;
  result.loss = loss;
  result.rate = rate();
  const auto write = [&](std::string_view name, float number) {
    update_->write(name, std::as_bytes(std::span(&number, 1)));
  };
  for (const Value& value : trained()) {
    update_->write(gradient_of(value.name), std::as_bytes(take_front(gradients, value)));
  }
  write("loss", static_cast<float>(loss));
  write("learning_rate", static_cast<float>(result.rate));
  for (const ValueId id : state_graph().with_origin(Origin::Input)) {
    if (state_graph().value(id).name == "step") {
      update_->write("step", std::as_bytes(std::span(&result.step, 1)));
    }
  }
  update_->run();
  result.gradient_norm = update_->number("grad_norm");
  result.finite = update_->number("finite") == 1;
  std::vector<float> parameters(gradient_count());
  read_updated(parameters);
  if (result.finite) {
    adopt_step(parameters);
  }
  return result;
}

void Trainer::read_updated(std::span<float> parameters) const {
  for (const Value& value : trained()) {
    update_->execution().read(value.name, std::as_writable_bytes(take_front(parameters, value)));
  }
}

void Trainer::read_trained(std::span<float> parameters) const {
  for (const Value& value : trained()) {
    execution_->execution().read(value.name, std::as_writable_bytes(take_front(parameters, value)));
  }
}

void Trainer::write_trained(std::span<const float> parameters) {
  for (const Value& value : trained()) {
    execution_->write(value.name, std::as_bytes(take_front(parameters, value)));
  }
  forward_is_current_ = false;
}

void Trainer::adopt_step(std::span<const float> parameters) {
  write_trained(parameters);
  ++step_;
}

std::vector<TrainedParameter> Trainer::trained_parameters() const {
  std::vector<TrainedParameter> parameters;
  for (const Value& value : trained()) {
    const Shape& shape = value.type.shape;
    parameters.push_back(
        {.name = value.name,
         .elements = container_size(shape),
         .decay = weight_decay(options_.training, value.name, static_cast<int>(shape.rank()))});
  }
  return parameters;
}

namespace {

std::string state_name(std::string_view prefix, const Value& parameter) {
  return fmt::format("{}/{}", prefix, parameter.name);
}

}  // namespace

void Trainer::read_state(std::string_view prefix, std::span<float> state) const {
  for (const Value& value : trained()) {
    update_->execution().read(state_name(prefix, value),
                              std::as_writable_bytes(take_front(state, value)));
  }
}

void Trainer::write_state(std::string_view prefix, std::span<const float> state) {
  for (const Value& value : trained()) {
    update_->write(state_name(prefix, value), std::as_bytes(take_front(state, value)));
  }
}

}  // namespace trireme::train
