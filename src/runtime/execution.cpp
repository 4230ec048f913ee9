#include "trireme/execution.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "graph/op.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

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

Work work_of(const Program& program, const Instruction& instruction) {
  const KernelRequest request = request_of(program, instruction);
  return instruction.op->work(
      {.op = instruction.op, .inputs = request.inputs, .attributes = &instruction.attributes});
}

}  // namespace

Bytes workspace_of(const Program& program, Device& device) {
  Bytes most{};
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.op->is_view) {
      most = std::max(most, device.prepare(request_of(program, instruction))->workspace());
    }
  }
  return most;
}

Execution::Execution(Program program, Device& device)
    : program_(std::move(program)), device_(device) {
  for (const Instruction& instruction : program_.instructions) {
    prepared_.push_back(
        instruction.op->is_view ? nullptr : device_.prepare(request_of(program_, instruction)));
    if (prepared_.back()) {
      workspace_bytes_ = std::max(workspace_bytes_, prepared_.back()->workspace());
    }
  }
  arena_ = device_.allocate(program_.arena);
  workspace_ = device_.allocate(workspace_bytes_);
  for (std::size_t i = 0; i < prepared_.size(); ++i) {
    kernels_.push_back(prepared_[i]
                           ? prepared_[i]->bind(memory_of(program_, program_.instructions[i],
                                                          arena_->data(), workspace_->data()))
                           : nullptr);
  }
}

Execution::~Execution() = default;

Bytes Execution::memory() const noexcept {
  return {program_.arena.count + workspace_bytes_.count};
}

void Execution::write(std::string_view name, std::span<const std::byte> data) {
  const Buffer& buffer = program_.buffer(program_.find(name));
  if (static_cast<std::int64_t>(data.size()) != size_of(buffer.type).count) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}, {} bytes; {} bytes were given", name, to_text(buffer.type),
                            size_of(buffer.type).count, data.size()));
  }
  device_.copy_in(arena_->data() + buffer.offset, data);
}

void Execution::read(std::string_view name, std::span<std::byte> data) const {
  const Buffer& buffer = program_.buffer(program_.find(name));
  if (static_cast<std::int64_t>(data.size()) != size_of(buffer.type).count) {
    throw Error(ErrorKind::Usage,
                fmt::format("{} is {}, {} bytes; {} bytes were asked for", name,
                            to_text(buffer.type), size_of(buffer.type).count, data.size()));
  }
  device_.copy_out(data, arena_->data() + buffer.offset);
}

void Execution::run(Trace* trace) {
  if (trace == nullptr) {
    for (const auto& kernel : kernels_) {
      if (kernel) {
        kernel->run();
      }
    }
    device_.synchronize();
    return;
  }
  const TrackId track = trace->add_track("rank 0", "compute");
  const Clock::time_point start = Clock::now();
  const auto now = [&] {
    return Seconds{std::chrono::duration<double>(Clock::now() - start).count()};
  };
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (!kernels_[i]) {
      continue;
    }
    const Instruction& instruction = program_.instructions[i];
    const Seconds begin = now();
    kernels_[i]->run();
    device_.synchronize();
    const Work work = work_of(program_, instruction);
    trace->add_span({.track = track,
                     .name = std::string(instruction.op->name),
                     .category = std::string(to_text(instruction.phase)),
                     .start = begin,
                     .duration = {now().count - begin.count},
                     .args = {{"block", std::int64_t{instruction.block}},
                              {"flops", work.products + work.others},
                              {"bytes", work.bytes}}});
  }
}

}  // namespace trireme
