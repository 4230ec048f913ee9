#include "trireme/execution.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "program/traffic.h"
#include "runtime/host_values.h"
#include "runtime/staging_queue.h"
#include "runtime/step_recorder.h"
#include "trireme/error.h"
#include "trireme/op.h"
#include "trireme/program_layout.h"
#include "trireme/program_set.h"

namespace trireme {
namespace {

KernelRequest request_of(const Program& program, const Instruction& instruction) {
  KernelRequest request{.op = instruction.op, .attributes = instruction.attributes};
  for (const BufferId input : instruction.inputs) {
    request.inputs.push_back(program.buffer(input).type);
  }
  for (const BufferId output : instruction.outputs) {
    request.outputs.push_back(program.buffer(output).type);
  }
  return request;
}

KernelMemory memory_of(const Program& program, const Instruction& instruction, std::byte* arena,
                       std::byte* workspace) {
  KernelMemory memory{.inputs = {}, .outputs = {}, .workspace = workspace};
  for (const BufferId input : instruction.inputs) {
    memory.inputs.push_back(arena + program.buffer(input).offset);
  }
  for (const BufferId output : instruction.outputs) {
    memory.outputs.push_back(arena + program.buffer(output).offset);
  }
  return memory;
}

bool is_kernel(const Instruction& instruction) {
  return !instruction.op->is_view && !instruction.op->communicates;
}

/// By instruction; none for a view or a communication op.
std::vector<std::unique_ptr<PreparedKernel>> prepare_kernels(const Program& program,
                                                             Device& device) {
  std::vector<std::unique_ptr<PreparedKernel>> prepared;
  for (const Instruction& instruction : program.instructions) {
    prepared.push_back(is_kernel(instruction) ? device.prepare(request_of(program, instruction))
                                              : nullptr);
  }
  return prepared;
}

Bytes workspace_of(std::span<const std::unique_ptr<PreparedKernel>> kernels) {
  Bytes most{};
  for (const auto& kernel : kernels) {
    most = kernel ? std::max(most, kernel->workspace()) : most;
  }
  return most;
}

Bytes exchange_workspace_of(const Program& program, Device& device) {
  Bytes most{};
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op->communicates) {
      most = std::max(most, device.prepare_exchange(request_of(program, instruction))->workspace());
    }
  }
  return most;
}

void require_communicator(const Program& program, const Communicator* communicator) {
  const bool exchanges = std::ranges::any_of(
      program.instructions, [](const Instruction& one) { return one.op->communicates; });
  if (exchanges && communicator == nullptr) {
    throw Error(ErrorKind::Usage,
                fmt::format("program {} exchanges with other ranks; it needs a communicator",
                            program.name));
  }
}

}  // namespace

Bytes workspace_of(const Program& program, Device& device) {
  return {workspace_of(prepare_kernels(program, device)).count +
          exchange_workspace_of(program, device).count};
}

Execution::Execution(Program program, Device& device, Communicator* communicator)
    : program_(aligned_to(std::move(program), device.alignment())),
      device_(device),
      rank_(communicator == nullptr ? 0 : communicator->rank()) {
  require_communicator(program_, communicator);
  bind_instructions(communicator);
  make_segments();
  inputs_ = std::make_unique<runtime::StagedInputs>(program_, device_, arena_->data());
  numbers_ = std::make_unique<runtime::FetchedNumbers>(program_, device_, arena_->data());
}

void Execution::bind_instructions(Communicator* communicator) {
  auto prepared = prepare_kernels(program_, device_);
  const Bytes workspace = workspace_of(prepared);
  const Bytes exchange_workspace = exchange_workspace_of(program_, device_);
  workspace_bytes_ = {workspace.count + exchange_workspace.count};
  arena_ = device_.allocate(program_.arena);
  workspace_ = device_.allocate(workspace);
  exchange_workspace_ = device_.allocate(exchange_workspace);
  compute_ = device_.make_stream();
  staging_ = std::make_unique<runtime::StagingQueue>(device_);
  kernels_.resize(prepared.size());
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (prepared[i]) {
      kernels_[i] = prepared[i]->bind(
          memory_of(program_, program_.instructions[i], arena_->data(), workspace_->data()));
      prepared[i].reset();  // a program has thousands
    }
  }
  bind_exchanges(communicator);
}

void Execution::bind_exchanges(Communicator* communicator) {
  const std::size_t count = program_.instructions.size();
  exchanges_.resize(count);
  waits_.resize(count + 1);
  session_ = communicator != nullptr ? device_.connect(*communicator) : nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (!instruction.op->communicates) {
      continue;
    }
    if (!exchange_stream_) {
      exchange_stream_ = device_.make_stream();
    }
    const auto prepared = device_.prepare_exchange(request_of(program_, instruction));
    exchanges_[i] = prepared->bind(
        memory_of(program_, instruction, arena_->data(), exchange_workspace_->data()),
        {*communicator, *exchange_stream_, *staging_, session_.get()});
    waits_.at(instruction.done_before).push_back(i);
  }
}

void Execution::make_segments() {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const bool begins =
        i == 0 || exchanges_[i] != nullptr || exchanges_[i - 1] != nullptr || !waits_[i].empty();
    if (begins) {
      segments_.push_back({.begin = i});
    }
    segments_.back().end = i + 1;
  }
}

Execution::~Execution() = default;

Bytes Execution::memory() const noexcept {
  return {program_.arena.count + workspace_bytes_.count};
}

BufferId Execution::checked_buffer(std::string_view name, std::size_t size) const {
  const BufferId id = program_.find(name);
  const TensorType& type = program_.buffer(id).type;
  if (static_cast<std::int64_t>(size) != size_of(type).count) {
    throw Error(ErrorKind::Usage, fmt::format("{} is {}, {} bytes; {} bytes were given", name,
                                              to_text(type), size_of(type).count, size));
  }
  return id;
}

std::byte* Execution::address_of(BufferId id) const {
  return arena_->data() + program_.buffer(id).offset;
}

void Execution::write(std::string_view name, std::span<const std::byte> data) {
  const BufferId id = checked_buffer(name, data.size());
  if (inputs_->has(id)) {
    inputs_->write(id, data, *compute_);
    return;
  }
  compute_->copy_in(address_of(id), data);
  compute_->synchronize();
}

void Execution::write_ahead(std::string_view name, std::span<const std::byte> data) {
  const BufferId id = checked_buffer(name, data.size());
  inputs_->has(id) ? inputs_->write_ahead(id, data) : write(name, data);
}

void Execution::read(std::string_view name, std::span<std::byte> data) const {
  compute_->copy_out(data, address_of(checked_buffer(name, data.size())));
  compute_->synchronize();
}

double Execution::number(std::string_view output) const {
  return numbers_->number(output);
}

std::map<std::string, double> Execution::bytes_sent() const {
  std::map<std::string, double> bytes;
  for (const OpTraffic& traffic : traffic_of(program_)) {
    bytes[traffic.op] += traffic.bytes;
  }
  return bytes;
}

void Execution::run(Trace* trace, const std::function<void()>& while_computing) {
  staging_->clear();
  try {
    run_step(trace, while_computing);
  } catch (...) {
    if (session_) {
      session_->abort();
    }
    throw;
  }
}

void Execution::wait_for_step() {
  if (session_) {
    session_->wait(*compute_);
  } else {
    compute_->synchronize();
  }
}

void Execution::run_step(Trace* trace, const std::function<void()>& while_computing) {
  const auto finish = [&] {
    if (while_computing) {
      while_computing();
    }
    wait_for_step();
  };
  inputs_->move_in(*compute_);
  if (trace == nullptr) {
    record_segments();
    enqueue_step(nullptr);
    finish();
    ++untraced_steps_;
    return;
  }
  runtime::StepRecorder recorder({.trace = *trace,
                                  .program = program_,
                                  .device = device_,
                                  .compute = *compute_,
                                  .rank = rank_});
  enqueue_step(&recorder);
  finish();
  recorder.write_spans();
}

/// In the second step: the first has warmed the kernels up. If the device cannot record them, they are enqueued one by
/// one; if the device itself has failed, that reports it.
void Execution::record_segments() {
  if (untraced_steps_ != 1) {
    return;
  }
  try {
    for (Segment& segment : segments_) {
      if (exchanges_[segment.begin]) {
        continue;
      }
      segment.recording = device_.record(*compute_, [&] { enqueue_kernels(segment, nullptr); });
    }
  } catch (const Error&) {
    for (Segment& segment : segments_) {
      segment.recording.reset();
    }
  }
}

void Execution::enqueue_step(runtime::StepRecorder* recorder) {
  for (const Segment& segment : segments_) {
    for (const std::size_t exchange : waits_[segment.begin]) {
      if (overlap_) {
        finish_exchange(exchange, recorder);
      }
    }
    if (!exchanges_[segment.begin]) {
      enqueue_kernels(segment, recorder);
      staging_->poll();
      continue;
    }
    if (recorder != nullptr) {
      recorder->begin_exchange(segment.begin);
    }
    exchanges_[segment.begin]->start(*compute_);
    if (!overlap_) {
      finish_exchange(segment.begin, recorder);
    }
  }
  for (const std::size_t exchange : waits_.back()) {
    if (overlap_) {
      finish_exchange(exchange, recorder);
    }
  }
  numbers_->enqueue_copies(*compute_);
}

void Execution::enqueue_kernels(const Segment& segment, runtime::StepRecorder* recorder) {
  if (recorder == nullptr && segment.recording) {
    segment.recording->enqueue(*compute_);
    return;
  }
  for (std::size_t i = segment.begin; i < segment.end; ++i) {
    if (!kernels_[i]) {
      continue;
    }
    if (recorder != nullptr) {
      recorder->begin_kernel(i);
    }
    kernels_[i]->enqueue(*compute_);
    if (recorder != nullptr) {
      recorder->end_kernel(i);
    }
  }
}

void Execution::finish_exchange(std::size_t exchange, runtime::StepRecorder* recorder) {
  if (recorder != nullptr) {
    recorder->begin_wait(exchange);
  }
  exchanges_[exchange]->finish(*compute_);
  if (recorder != nullptr) {
    recorder->end_wait(exchange);
  }
}

}  // namespace trireme
