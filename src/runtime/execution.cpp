#include "trireme/execution.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "program/traffic.h"
#include "runtime/exchange.h"
#include "trireme/error.h"
#include "trireme/op.h"
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

/// Records a step in a trace. Concurrent communication ops are on separate tracks.
class Recorder {
 public:
  Recorder(Trace& trace, int rank, std::size_t instructions)
      : trace_(trace),
        process_(fmt::format("rank {}", rank)),
        compute_(trace.add_track(process_, "compute")),
        waiting_(trace.add_track(process_, "waiting")),
        begun_(instructions),
        track_of_(instructions) {}

  [[nodiscard]] Seconds now() const {
    return {std::chrono::duration<double>(Clock::now() - start_).count()};
  }
  void add_kernel(const Instruction& instruction, Seconds begin, const Work& work) {
    add(compute_, instruction, begin,
        {{"block", std::int64_t{instruction.block}},
         {"flops", work.products + work.others},
         {"bytes", work.bytes}});
  }
  void add_wait(const Instruction& instruction, Seconds begin) {
    add(waiting_, instruction, begin, {{"block", std::int64_t{instruction.block}}});
  }
  void begin_exchange(std::size_t number) {
    begun_[number] = now();
    track_of_[number] = free_track();
  }
  void end_exchange(std::size_t number, const Instruction& instruction, double bytes) {
    std::vector<TraceArg> args{{"bytes", bytes}};
    for (const auto& [key, value] : instruction.attributes) {  // group, reduction, …
      std::visit(
          [&, &name = key](const auto& is) {
            if constexpr (std::is_constructible_v<decltype(TraceArg::value), decltype(is)>) {
              args.push_back({name, is});
            }
          },
          value);
    }
    add(tracks_[track_of_[number]], instruction, begun_[number], std::move(args));
    busy_[track_of_[number]] = false;
  }

 private:
  void add(TrackId track, const Instruction& instruction, Seconds begin,
           std::vector<TraceArg> args) {
    trace_.add_span({.track = track,
                     .name = std::string(instruction.op->name),
                     .category = std::string(to_text(instruction.phase)),
                     .start = begin,
                     .duration = {now().count - begin.count},
                     .args = std::move(args)});
  }
  std::size_t free_track() {
    const auto number = static_cast<std::size_t>(std::ranges::find(busy_, false) - busy_.begin());
    if (number == busy_.size()) {
      tracks_.push_back(trace_.add_track(process_, fmt::format("exchanges {}", number)));
      busy_.push_back(true);
    }
    busy_[number] = true;
    return number;
  }

  Trace& trace_;
  std::string process_;
  TrackId compute_;
  TrackId waiting_;
  Clock::time_point start_ = Clock::now();
  std::vector<Seconds> begun_;         ///< by instruction
  std::vector<std::size_t> track_of_;  ///< likewise
  std::vector<TrackId> tracks_;
  std::vector<bool> busy_;  ///< by track
};

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
      rank_(communicator == nullptr ? 0 : communicator->rank()) {
  const std::size_t count = program_.instructions.size();
  std::vector<std::unique_ptr<PreparedKernel>> prepared;
  for (const Instruction& instruction : program_.instructions) {
    const bool runs = !instruction.op->is_view && !instruction.op->communicates;
    prepared.push_back(runs ? device_.prepare(request_of(program_, instruction)) : nullptr);
    if (runs) {
      workspace_bytes_ = std::max(workspace_bytes_, prepared.back()->workspace());
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
    if (prepared[i]) {
      kernels_[i] = prepared[i]->bind(memory);
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
                fmt::format("{} is {}, {} bytes; {} bytes were given", name, to_text(buffer.type),
                            size_of(buffer.type).count, data.size()));
  }
  device_.copy_out(data, arena_->data() + buffer.offset);
}

std::map<std::string, double> Execution::bytes_sent() const {
  std::map<std::string, double> bytes;
  for (const OpTraffic& traffic : traffic_of(program_)) {
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
      if (overlap_) {
        exchanges_[exchange]->finish();
      }
    }
    if (i == kernels_.size()) {
      break;
    }
    if (kernels_[i]) {
      kernels_[i]->run();
    } else if (exchanges_[i]) {
      device_.synchronize();
      exchanges_[i]->start();
      if (!overlap_) {
        exchanges_[i]->finish();
      }
    }
  }
  device_.synchronize();
}

/// The same, reading the clock before and after everything.
void Execution::run_traced(Trace& trace) {
  Recorder recorder(trace, rank_, exchanges_.size());
  const auto finish = [&](std::size_t e) {
    const Instruction& instruction = program_.instructions[e];
    const Seconds begin = recorder.now();
    exchanges_[e]->finish();
    recorder.add_wait(instruction, begin);
    recorder.end_exchange(e, instruction, trireme::bytes_sent(signature_of(program_, instruction)));
  };
  for (std::size_t i = 0; i <= kernels_.size(); ++i) {
    for (const std::size_t e : waits_[i]) {
      if (overlap_) {
        finish(e);
      }
    }
    if (i == kernels_.size()) {
      break;
    }
    const Instruction& instruction = program_.instructions[i];
    if (kernels_[i]) {
      const Seconds begin = recorder.now();
      kernels_[i]->run();
      device_.synchronize();
      recorder.add_kernel(instruction, begin, work_of(program_, instruction));
    } else if (exchanges_[i]) {
      device_.synchronize();
      recorder.begin_exchange(i);
      exchanges_[i]->start();
      if (!overlap_) {
        finish(i);
      }
    }
  }
}

}  // namespace trireme
