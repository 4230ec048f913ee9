#include "trireme/execution.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "graph/op.h"
#include "program/traffic.h"
#include "runtime/exchange.h"
#include "trireme/error.h"
#include "trireme/program_set.h"

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
  return instruction.op->work(signature_of(program, instruction));
}

}  // namespace

Bytes workspace_of(const Program& program, Device& device) {
  Bytes most{};
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.op->is_view && !instruction.op->communicates) {
      most = std::max(most, device.prepare(request_of(program, instruction))->workspace());
    }
  }
  return most;
}

Execution::Execution(Program program, Device& device, Communicator* communicator)
    : program_(std::move(program)),
      device_(device),
      rank_(communicator == nullptr ? 0 : communicator->world().rank()) {
  const std::size_t count = program_.instructions.size();
  for (const Instruction& instruction : program_.instructions) {
    const bool runs = !instruction.op->is_view && !instruction.op->communicates;
    prepared_.push_back(runs ? device_.prepare(request_of(program_, instruction)) : nullptr);
    if (runs) {
      workspace_bytes_ = std::max(workspace_bytes_, prepared_.back()->workspace());
    }
    if (instruction.op->communicates && communicator == nullptr) {
      throw Error(ErrorKind::Usage, fmt::format("program {} exchanges with other ranks; it needs a "
                                                "communicator",
                                                program_.name));
    }
  }
  arena_ = device_.allocate(program_.arena);
  workspace_ = device_.allocate(workspace_bytes_);
  exchanges_.resize(count);
  kernels_.resize(count);
  waits_.resize(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Instruction& instruction = program_.instructions[i];
    const KernelMemory memory =
        memory_of(program_, instruction, arena_->data(), workspace_->data());
    if (prepared_[i]) {
      kernels_[i] = prepared_[i]->bind(memory);
    }
    if (instruction.op->communicates) {
      exchanges_[i] =
          runtime::make_exchange(request_of(program_, instruction), memory, *communicator);
      waits_.at(static_cast<std::size_t>(instruction.done_before)).push_back(i);
    }
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

std::map<std::string, double> Execution::bytes_sent() const {
  std::map<std::string, double> bytes;
  for (const Traffic& traffic : traffic_of(program_)) {
    bytes[traffic.op] += traffic.bytes;
  }
  return bytes;
}

void Execution::run(Trace* trace) {
  if (trace != nullptr) {
    run_traced(*trace);
    return;
  }
  for (std::size_t i = 0; i <= kernels_.size(); ++i) {
    for (const std::size_t exchange : waits_[i]) {
      exchanges_[exchange]->finish();
    }
    if (i == kernels_.size()) {
      break;
    }
    if (kernels_[i]) {
      kernels_[i]->run();
    } else if (exchanges_[i]) {
      device_.synchronize();
      exchanges_[i]->start();
    }
  }
  device_.synchronize();
}

/// The same, with a look at the clock before and after everything.
void Execution::run_traced(Trace& trace) {
  const std::string process = fmt::format("rank {}", rank_);
  const TrackId compute = trace.add_track(process, "compute");
  const TrackId waiting = trace.add_track(process, "waiting");
  // Exchanges that go on at the same time are on tracks of their own.
  std::vector<TrackId> tracks;
  std::vector<bool> busy;
  const auto free_track = [&] {
    const auto it = std::ranges::find(busy, false);
    const auto number = static_cast<std::size_t>(it - busy.begin());
    if (it == busy.end()) {
      tracks.push_back(trace.add_track(process, fmt::format("exchanges {}", number)));
      busy.push_back(true);
    }
    busy[number] = true;
    return number;
  };
  const Clock::time_point start = Clock::now();
  const auto now = [&] {
    return Seconds{std::chrono::duration<double>(Clock::now() - start).count()};
  };
  const auto add = [&](TrackId track, const Instruction& instruction, Seconds begin,
                       std::vector<TraceArg> args) {
    trace.add_span({.track = track,
                    .name = std::string(instruction.op->name),
                    .category = std::string(to_text(instruction.phase)),
                    .start = begin,
                    .duration = {now().count - begin.count},
                    .args = std::move(args)});
  };
  std::vector<Seconds> begun(exchanges_.size());
  std::vector<std::size_t> track_of(exchanges_.size());
  for (std::size_t i = 0; i <= kernels_.size(); ++i) {
    for (const std::size_t e : waits_[i]) {
      const Instruction& instruction = program_.instructions[e];
      const Seconds begin = now();
      exchanges_[e]->finish();
      add(waiting, instruction, begin, {{"block", std::int64_t{instruction.block}}});
      add(tracks[track_of[e]], instruction, begun[e],
          {{"bytes", trireme::bytes_sent(signature_of(program_, instruction))}});
      busy[track_of[e]] = false;
    }
    if (i == kernels_.size()) {
      break;
    }
    const Instruction& instruction = program_.instructions[i];
    const Seconds begin = now();
    if (kernels_[i]) {
      kernels_[i]->run();
      device_.synchronize();
      const Work work = work_of(program_, instruction);
      add(compute, instruction, begin,
          {{"block", std::int64_t{instruction.block}},
           {"flops", work.products + work.others},
           {"bytes", work.bytes}});
    } else if (exchanges_[i]) {
      device_.synchronize();
      begun[i] = begin;
      track_of[i] = free_track();
      exchanges_[i]->start();
    }
  }
}

}  // namespace trireme
